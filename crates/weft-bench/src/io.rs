//! Data: sequential and random, one and several at once.

use crate::random::Random;
use crate::workers::{Name, Tally, measure};
use crate::{At, Bench, BenchError};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Size of a random operation, in bytes.
const SMALL: usize = 4096;

/// Whether random operations are also measured past the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Buffered only.
    No,
    /// Buffered and O_DIRECT.
    Yes,
}

/// How much data, for how long.
#[derive(Clone, Debug)]
pub struct IoPlan {
    /// Size of the file, in MiB.
    pub file_mib: usize,
    /// How long each random figure runs.
    pub random_time: Duration,
    /// Past the caches too.
    pub direct: Direct,
}

impl Default for IoPlan {
    fn default() -> IoPlan {
        IoPlan {
            file_mib: 1024,
            random_time: Duration::from_secs(6),
            direct: Direct::Yes,
        }
    }
}

/// Memory aligned as O_DIRECT wants it.
struct Aligned {
    memory: Vec<u8>,
    offset: usize,
    length: usize,
}

impl Aligned {
    fn new(content: &[u8]) -> Aligned {
        let mut memory = vec![0; content.len() + SMALL];
        let offset = memory.as_ptr().align_offset(SMALL);
        memory[offset..offset + content.len()].copy_from_slice(content);
        Aligned {
            memory,
            offset,
            length: content.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.offset..self.offset + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..self.offset + self.length]
    }
}

fn write_range(path: &Path, start: usize, mib: usize, tally: &mut Tally) -> Result<(), BenchError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .at(path)?;
    let content = Random::new(start as u64).bytes(MIB);
    for i in 0..mib {
        let offset = ((start + i) * MIB) as u64;
        tally.time(1.0, || file.write_all_at(&content, offset));
    }
    tally.time(0.0, || file.sync_all());
    Ok(())
}

fn read_range(path: &Path, mib: usize, tally: &mut Tally) -> Result<(), BenchError> {
    let file = File::open(path).at(path)?;
    let mut buffer = vec![0; MIB];
    for i in 0..mib {
        tally.time(1.0, || file.read_exact_at(&mut buffer, (i * MIB) as u64));
    }
    Ok(())
}

fn random_io(
    path: &Path,
    plan: &IoPlan,
    write: bool,
    direct: bool,
    seed: usize,
    tally: &mut Tally,
) -> Result<(), BenchError> {
    let mut options = OpenOptions::new();
    options.read(!write).write(write);
    if direct {
        options.custom_flags(libc::O_DIRECT);
    }
    let file = options.open(path).at(path)?;
    let mut random = Random::new(seed as u64 + 1);
    let mut buffer = Aligned::new(&random.bytes(SMALL));
    let blocks = (plan.file_mib * MIB / SMALL) as u64;
    let end = Instant::now() + plan.random_time;
    while Instant::now() < end {
        let offset = random.next() % blocks * SMALL as u64;
        if write {
            tally.time(1.0, || file.write_all_at(buffer.bytes(), offset));
        } else {
            tally.time(1.0, || file.read_exact_at(buffer.bytes_mut(), offset));
        }
    }
    if write {
        tally.time(0.0, || file.sync_all());
    }
    Ok(())
}

/// Sequential writing and reading, four writers to four files and to one, random reads and writes
/// of 4 KiB by one and by four.
///
/// # Errors
/// If the files cannot be prepared.
pub fn run_io(bench: &mut Bench<'_>, plan: &IoPlan) -> Result<(), BenchError> {
    let directory = bench.directory.join("weft-bench-io");
    std::fs::create_dir_all(&directory).at(&directory)?;
    let result = run_in(bench, plan, &directory);
    std::fs::remove_dir_all(&directory).at(&directory)?;
    result
}

fn run_in(bench: &mut Bench<'_>, plan: &IoPlan, directory: &Path) -> Result<(), BenchError> {
    let mib = |figure, case| Name {
        figure,
        case,
        unit: "MiB/s",
    };
    let file = directory.join("file");
    bench.cool();
    measure(bench, &mib("seq_write", "1 writer"), 1, |_, tally| {
        write_range(&file, 0, plan.file_mib, tally)
    })?;
    bench.cool();
    measure(bench, &mib("seq_read", "1 reader"), 1, |_, tally| {
        read_range(&file, plan.file_mib, tally)
    })?;
    let modes: &[bool] = if plan.direct == Direct::Yes {
        &[false, true]
    } else {
        &[false]
    };
    for &direct in modes {
        for jobs in [1, 4] {
            let case = format!("{jobs} {}", if direct { "direct" } else { "buffered" });
            for (figure, write) in [("rand_read_4k", false), ("rand_write_4k", true)] {
                bench.cool();
                let name = Name {
                    figure,
                    case: &case,
                    unit: "op/s",
                };
                measure(bench, &name, jobs, |index, tally| {
                    random_io(&file, plan, write, direct, index, tally)
                })?;
            }
        }
    }
    std::fs::remove_file(&file).at(&file)?;
    let share = plan.file_mib / 4;
    let part = |index: usize| directory.join(format!("part{index}"));
    bench.cool();
    measure(
        bench,
        &mib("write_4_files", "4 writers"),
        4,
        |index, tally| write_range(&part(index), 0, share, tally),
    )?;
    bench.cool();
    measure(
        bench,
        &mib("read_4_files", "4 readers"),
        4,
        |index, tally| read_range(&part(index), share, tally),
    )?;
    for index in 0..4 {
        std::fs::remove_file(part(index)).at(&part(index))?;
    }
    bench.cool();
    let shared = directory.join("shared");
    measure(
        bench,
        &mib("write_1_file", "4 writers"),
        4,
        |index, tally| write_range(&shared, index * share, share, tally),
    )?;
    let length = std::fs::metadata(&shared).at(&shared)?.len();
    if length != (share * 4 * MIB) as u64 {
        return Err(BenchError::Program(format!(
            "four writers wrote {} MiB to one file, but it is {length} bytes long",
            share * 4
        )));
    }
    Ok(())
}
