//! What is searched: a database of random bases, in fragments of which each worker has one, with copies
//! of the queries at known places. So it is known what must be found, and nothing else can be.
//!
//! Each sequence has a seed of its own: any of them can be made again alone.

use crate::run::root;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Another one when anything else is generated: what was kept of a former one is not taken for it.
const VERSION: u32 = 1;
/// A quarter of a byte each once they are packed.
const BASES_PER_MIB: usize = 4 << 20;
/// Of one sequence of the database.
const SEQUENCE_BASES: usize = 256 << 10;
/// As long as the query of CEFT's authors.
const QUERY_BASES: usize = 568;
/// They are searched together, in one pass over the database.
const QUERIES: usize = 4;
/// Copies of queries in each fragment.
const COPIES: usize = 2 * QUERIES;
/// Where they begin in the numbering of random streams; fragments stand before.
const QUERY_STREAM: u64 = 1 << 63;

/// An unfinished database is called so, and the pid of the chore that makes it follows.
const PART: &str = "part";

/// What `blastn` prints of each hit, in this order; scores depend on its version.
pub const COLUMNS: &str = "6 qseqid sseqid length mismatch gapopen qstart qend sstart send";

/// Random bases: SplitMix64, two bits for each.
struct Bases(u64);

impl Bases {
    fn of(stream: u64) -> Bases {
        // Neighbouring streams begin far from one another.
        Bases(Bases(stream).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bases = Vec::with_capacity(count + 32);
        while bases.len() < count {
            let mut word = self.next();
            for _ in 0..32 {
                bases.push(b"ACGT"[(word & 3) as usize]);
                word >>= 2;
            }
        }
        bases.truncate(count);
        bases
    }
}

fn complement(base: u8) -> u8 {
    match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        _ => b'A',
    }
}

/// A copy of a whole query (of a piece more could be found by chance at its ends) with a few bases
/// changed far from its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plant {
    query: usize,
    sequence: usize,
    at: usize,
    is_reversed: bool,
    changes: usize,
}

impl Plant {
    fn bases(self) -> Vec<u8> {
        let mut bases = query(self.query);
        for change in 1..=self.changes {
            let base = &mut bases[change * QUERY_BASES / (self.changes + 1)];
            *base = complement(*base);
        }
        if self.is_reversed {
            bases.reverse();
            bases.iter_mut().for_each(|base| *base = complement(*base));
        }
        bases
    }

    /// The line that must be found, see [`COLUMNS`].
    fn hit(self, fragment: usize) -> String {
        let (first, last) = (self.at + 1, self.at + QUERY_BASES);
        let (begin, end) = match self.is_reversed {
            true => (last, first),
            false => (first, last),
        };
        format!(
            "q{}\tf{fragment}s{}\t{QUERY_BASES}\t{}\t0\t1\t{QUERY_BASES}\t{begin}\t{end}",
            self.query, self.sequence, self.changes
        )
    }
}

fn query(number: usize) -> Vec<u8> {
    Bases::of(QUERY_STREAM + number as u64).take(QUERY_BASES)
}

/// All queries, as a file of them.
pub fn queries() -> String {
    let mut text = String::new();
    for number in 0..QUERIES {
        let bases = query(number);
        let _ = writeln!(text, ">q{number}\n{}", String::from_utf8_lossy(&bases));
    }
    text
}

/// How large the database is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// One for each worker.
    pub fragments: usize,
    /// Packed bases of each.
    pub mib: usize,
}

impl Shape {
    fn sequences(self) -> usize {
        self.mib * BASES_PER_MIB / SEQUENCE_BASES
    }

    /// Where copies of queries are. The first bases of a fragment and its last are in one: whoever
    /// finds them all has read it all.
    fn plants(self, fragment: usize) -> Vec<Plant> {
        let mut places = Bases::of(QUERY_STREAM + (QUERIES + fragment) as u64);
        let most = SEQUENCE_BASES - QUERY_BASES;
        let plant = |number: usize| Plant {
            query: (number + fragment) % QUERIES,
            sequence: number * (self.sequences() - 1) / (COPIES - 1),
            at: match number {
                0 => 0,
                number if number + 1 == COPIES => most,
                _ => (places.next() % most as u64) as usize,
            },
            is_reversed: (number + number / QUERIES) % 2 == 1,
            changes: number % 3,
        };
        (0..COPIES).map(plant).collect()
    }

    fn sequence(self, fragment: usize, number: usize) -> Vec<u8> {
        let stream = ((fragment as u64) << 32) | number as u64;
        let mut bases = Bases::of(stream).take(SEQUENCE_BASES);
        for plant in self.plants(fragment) {
            if plant.sequence == number {
                bases[plant.at..plant.at + QUERY_BASES].copy_from_slice(&plant.bases());
            }
        }
        bases
    }

    /// What a worker must find in its fragment: lines in order.
    pub fn hits(self, fragment: usize) -> Vec<String> {
        let plants = self.plants(fragment);
        let mut hits: Vec<String> = plants
            .into_iter()
            .map(|plant| plant.hit(fragment))
            .collect();
        hits.sort();
        hits
    }

    /// Where it is kept from one run to the next.
    fn place(self) -> PathBuf {
        let name = format!("v{VERSION}-{}x{}", self.fragments, self.mib);
        root().join("target/job-database").join(name)
    }

    /// The database as `makeblastdb` packs it: made, or as it was made before.
    ///
    /// # Errors
    /// In words, if it cannot be made; nothing is left then.
    pub fn made(self) -> Result<PathBuf, String> {
        let place = self.place();
        if place.exists() {
            return Ok(place);
        }
        println!(
            "== make a database of {} fragments, {} MiB each",
            self.fragments, self.mib
        );
        let io = |error: std::io::Error| format!("{}: {error}", place.display());
        sweep(&place);
        // Complete when it has its name.
        let unfinished = place.with_extension(format!("{PART}{}", std::process::id()));
        fs::create_dir_all(&unfinished).map_err(io)?;
        let made = (0..self.fragments)
            .try_for_each(|fragment| self.make(fragment, &unfinished))
            .and_then(|()| fs::rename(&unfinished, &place).map_err(io));
        match made {
            Ok(()) => Ok(place),
            Err(why) => {
                // Why it could not be made says more.
                let _: std::io::Result<()> = fs::remove_dir_all(&unfinished);
                Err(why)
            }
        }
    }

    fn make(self, fragment: usize, directory: &Path) -> Result<(), String> {
        let name = name(fragment);
        let mut child = Command::new("makeblastdb")
            .args(["-in", "-", "-dbtype", "nucl", "-title", &name, "-out"])
            .arg(directory.join(&name))
            .env("BLAST_USAGE_REPORT", "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start makeblastdb: {error}"))?;
        let fed = match child.stdin.take() {
            Some(input) => self.feed(fragment, input),
            None => Ok(()),
        };
        let output = child
            .wait_with_output()
            .map_err(|error| format!("makeblastdb: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match (output.status.success(), fed) {
            (true, Ok(())) => Ok(()),
            (false, _) => Err(format!("makeblastdb: {}: {said}", output.status)),
            (_, Err(error)) => Err(format!("makeblastdb does not read: {error}: {said}")),
        }
    }

    fn feed(self, fragment: usize, input: impl Write) -> std::io::Result<()> {
        let mut input = BufWriter::new(input);
        for number in 0..self.sequences() {
            writeln!(input, ">f{fragment}s{number}")?;
            input.write_all(&self.sequence(fragment, number))?;
            input.write_all(b"\n")?;
        }
        input.flush()
    }
}

/// Removes what a chore that was killed has not finished.
fn sweep(place: &Path) {
    // Nothing there: none was ever made.
    let entries = place.parent().and_then(|parent| fs::read_dir(parent).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if let Some(pid) = extension.and_then(|extension| extension.strip_prefix(PART))
            && !Path::new("/proc").join(pid).exists()
        {
            // What stays takes room, and is not taken for a database.
            let _: std::io::Result<()> = fs::remove_dir_all(&path);
        }
    }
}

/// What a fragment's files are called, without what follows the dot.
pub fn name(fragment: usize) -> String {
    format!("f{fragment}")
}

/// The files of a fragment, in order.
///
/// # Errors
/// If the directory cannot be read, or has none.
pub fn files(directory: &Path, fragment: usize) -> Result<Vec<PathBuf>, String> {
    let io = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path
            .file_stem()
            .is_some_and(|stem| *stem == *name(fragment))
        {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!(
            "{} has no fragment {fragment}: remove it, and it is made again",
            directory.display()
        )),
        false => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape {
        fragments: 3,
        mib: 1,
    };

    #[test]
    fn the_same_is_generated_each_time_and_nothing_twice() {
        assert_eq!(SMALL.sequence(1, 3), SMALL.sequence(1, 3));
        assert_ne!(SMALL.sequence(1, 3), SMALL.sequence(1, 4));
        assert_ne!(SMALL.sequence(1, 3), SMALL.sequence(2, 3));
        assert_ne!(query(0), query(1));
        // What is kept from one run to the next was made by this.
        assert!(queries().starts_with(">q0\nAAGGCAATAATGTATAAGGT"));
        let known = b"TTCACGTTTCCGAAGAGCTT";
        assert!(SMALL.sequence(2, 5).starts_with(known));
    }

    #[test]
    fn only_what_nobody_finishes_any_more_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let own = format!("v1-1x1.part{}", std::process::id());
        // No process has such a pid.
        for name in ["v1-1x1", "v1-1x1.part4294967295", &own] {
            fs::create_dir(at(name)).unwrap();
        }
        sweep(&at("v1-1x1"));
        assert!(at("v1-1x1").exists() && at(&own).exists());
        assert!(!at("v1-1x1.part4294967295").exists());
    }

    #[test]
    fn all_bases_are_as_frequent() {
        let bases = Bases::of(1).take(100_000);
        assert_eq!(bases.len(), 100_000);
        for base in b"ACGT" {
            let count = bases.iter().filter(|each| *each == base).count();
            assert!((24_000..26_000).contains(&count), "{count}");
        }
    }

    #[test]
    fn every_hit_lies_where_it_is_expected() {
        for fragment in 0..SMALL.fragments {
            let hits = SMALL.hits(fragment);
            assert_eq!(hits.len(), COPIES);
            for hit in hits {
                let fields: Vec<&str> = hit.split('\t').collect();
                let number = |at: usize| fields[at].parse::<usize>().unwrap();
                let query = query(fields[0][1..].parse().unwrap());
                let sequence = fields[1].rsplit_once('s').unwrap().1.parse().unwrap();
                let sequence = SMALL.sequence(fragment, sequence);
                let (begin, end) = (number(7), number(8));
                let mut found = sequence[begin.min(end) - 1..begin.max(end)].to_vec();
                if begin > end {
                    found.reverse();
                    found.iter_mut().for_each(|base| *base = complement(*base));
                }
                assert_eq!(found.len(), number(2));
                let different = found.iter().zip(&query).filter(|(a, b)| a != b).count();
                assert_eq!(different, number(3), "{hit}");
            }
        }
    }

    #[test]
    fn a_fragment_begins_and_ends_with_a_hit_and_no_two_share_a_sequence() {
        for shape in [
            SMALL,
            Shape {
                fragments: 4,
                mib: 64,
            },
        ] {
            let plants = shape.plants(1);
            assert_eq!((plants[0].sequence, plants[0].at), (0, 0));
            let last = plants.last().unwrap();
            assert_eq!(last.sequence + 1, shape.sequences());
            assert_eq!(last.at + QUERY_BASES, SEQUENCE_BASES);
            assert!(
                plants
                    .windows(2)
                    .all(|two| two[0].sequence < two[1].sequence)
            );
            assert!(plants.iter().any(|plant| plant.is_reversed));
            assert!(
                plants
                    .iter()
                    .any(|plant| !plant.is_reversed && plant.changes > 0)
            );
        }
        assert_ne!(SMALL.hits(0), SMALL.hits(1));
    }
}
