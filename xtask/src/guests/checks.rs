//! What must hold for clients of gateways.

use super::front::Front;
use super::guest::{Guest, HOST, script};
use crate::cluster::Cluster;
use crate::run::Outcome;
use crate::suites;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// For what takes moments.
const SHORT: Duration = Duration::from_secs(120);
/// For suites; guests are slow.
const LONG: Duration = Duration::from_secs(3600);
/// Operations of fsx.
const FSX_OPERATIONS: u32 = 20_000;
/// A built checkout of the Connectathon's tests is named by this variable of the environment.
const CTHON: &str = "WEFT_CTHON04";
/// Records that each of the eight writers appends.
const RECORDS: usize = 25;
/// A gateway's death may keep a client waiting for that long: guests are slow.
const PAUSE: Duration = Duration::from_secs(4);

/// Gateways that are killed under a lock.
const HOLDING_KILLS: usize = 4;
/// How often it is tried after each whether somebody else gets it: some seconds.
const LOOKS: usize = 12;

/// What a check needs.
pub struct Ground<'a> {
    pub cluster: &'a Cluster,
    pub gateways: Vec<SocketAddr>,
    /// Each mounts two gateways, at /mnt/a and /mnt/b.
    pub guests: [Guest; 2],
    /// Sources to build.
    pub sources: PathBuf,
    /// Where suites are installed.
    pub tools: PathBuf,
    /// For logs.
    pub run: PathBuf,
    /// For pjdfstest.
    pub filter: Option<String>,
}

/// Tests of pjdfstest that may fail, by version, each with its reason in docs/nfs-clients.md.
const EXPECTED_FAILURES: [(&[&str], &str); 2] = [
    (&["3", "4.1", "4.2"], "unlink::open_file_not_freed"),
    (&["3"], "utimensat::y2038"),
];

type Check = fn(&Ground<'_>, &str) -> Outcome;

/// All of them, in the order in which they run.
pub const CHECKS: [(&str, Check); 9] = [
    ("coherence", coherence),
    ("locks", locks),
    ("append", append),
    ("fsx", fsx),
    ("build", build),
    ("failover", failover),
    ("held", held),
    ("pjdfstest", pjdfstest),
    ("cthon", cthon),
];

impl Ground<'_> {
    /// Mounts all gateways by this version, with an empty directory `ground` on them.
    pub fn mount(&self, version: &str) -> Outcome {
        for guest in 0..self.guests.len() {
            self.mount_on(guest, version)?;
        }
        let remade = "rm -rf /mnt/a/ground; mkdir -m 777 /mnt/a/ground";
        self.guests[0].run(remade, SHORT).map(drop)
    }

    fn mount_on(&self, guest: usize, version: &str) -> Outcome {
        let mounts = ["a", "b"].iter().zip(&self.gateways[2 * guest..]);
        for (name, gateway) in mounts {
            mount(&self.guests[guest], version, gateway.port(), name)?;
        }
        Ok(())
    }

    /// Takes them away.
    pub fn unmount(&self) -> Outcome {
        for guest in &self.guests {
            guest.run("umount /mnt/a /mnt/b", SHORT)?;
        }
        Ok(())
    }

    fn on(&self, guest: usize, script: &str) -> Result<String, String> {
        self.guests[guest].run(script, SHORT)
    }
}

fn mount(guest: &Guest, version: &str, port: u16, name: &str) -> Outcome {
    let options = match version {
        "3" => format!("vers=3,proto=tcp,port={port},mountport={port},nolock"),
        version => format!("vers={version},proto=tcp,port={port}"),
    };
    let module = match version {
        "3" => "nfsv3",
        _ => "nfsv4",
    };
    let script = format!(
        "modprobe {module}; mkdir -p /mnt/{name}; mount -t nfs -o {options} {HOST}:/ /mnt/{name}"
    );
    guest.run(&script, SHORT).map(drop)
}

/// What one guest has closed the other one reads, whatever gateways they use.
fn coherence(ground: &Ground<'_>, _version: &str) -> Outcome {
    let expect = |guest: usize, path: &str, expected: &str| match ground
        .on(guest, &format!("cat {path}"))?
    {
        found if found == expected => Ok(()),
        found => Err(format!("guest {guest} reads {found:?}, not {expected:?}")),
    };
    let mut all = String::new();
    for round in 0..20 {
        let (writer, reader) = (round % 2, 1 - round % 2);
        let (by, at) = (["a", "b"][round / 2 % 2], ["b", "a"][round / 3 % 2]);
        // A new file, one that grows, and one that is written anew.
        let script = format!(
            "echo {round} > /mnt/{by}/ground/new-{round}; echo {round} >> /mnt/{by}/ground/grows; \
             echo round {round} > /mnt/{by}/ground/anew"
        );
        ground.on(writer, &script)?;
        all += &format!("{round}\n");
        expect(
            reader,
            &format!("/mnt/{at}/ground/new-{round}"),
            &format!("{round}\n"),
        )?;
        expect(reader, &format!("/mnt/{at}/ground/grows"), &all)?;
        expect(
            reader,
            &format!("/mnt/{at}/ground/anew"),
            &format!("round {round}\n"),
        )?;
    }
    // Large enough to be written in many pieces, and read before the cache of the other knows of it.
    let sum = "sha256sum | cut -c1-64";
    let written = ground.on(
        0,
        &format!("dd if=/dev/urandom of=/tmp/big bs=1M count=32 2> /dev/null; cp /tmp/big /mnt/a/ground/big; {sum} < /tmp/big"),
    )?;
    let read = ground.on(1, &format!("{sum} < /mnt/b/ground/big"))?;
    match read == written {
        true => Ok(()),
        false => Err(format!("32 MiB: written {written}, read {read}")),
    }
}

/// Locks of byte ranges exclude each other, whatever gateways.
fn locks(ground: &Ground<'_>, version: &str) -> Outcome {
    if version == "3" {
        println!("   left out: locks of version 3 are another protocol");
        return Ok(());
    }
    exclude(ground, ("alone", "alone"))?;
    // Who only reads may have been given the file, and has told nobody of his lock then.
    exclude(ground, ("read", "alone"))?;
    exclude(ground, ("alone", "read"))
}

/// What is locked in the one way on one guest is not locked in the other way on any, until its holder has ended.
fn exclude(ground: &Ground<'_>, (held, wanted): (&str, &str)) -> Outcome {
    let locked = script("locked.py");
    let locked = |at: &str, kind: &str, start: u32, length: u32| {
        let program = locked.display();
        let file = format!("/mnt/{at}/ground/locked-{held}-{wanted}");
        format!("python3 {program} {file} {kind} {start} {length}")
    };
    let refused = |guest: usize, at: &str, start: u32, length: u32| -> Result<bool, String> {
        let attempt = locked(at, wanted, start, length);
        match ground.guests[guest].status(&attempt, SHORT)? {
            (0, _) => Ok(false),
            (11, _) => Ok(true),
            (status, output) => Err(format!("status {status}: {output}")),
        }
    };
    let attempts = || -> Outcome {
        wait_for(&ground.guests[0], "/tmp/held.locked")?;
        for (guest, at, start, length, expected) in [
            (1, "b", 15, 1, true),
            (1, "a", 0, 10, false),
            (1, "a", 20, 5, false),
            (1, "b", 19, 1, true),
            (0, "b", 5, 6, true),
        ] {
            if refused(guest, at, start, length)? != expected {
                return Err(format!(
                    "held {held}, wanted {wanted}: guest {guest}, /mnt/{at}, {length} bytes from {start}: not as it should be"
                ));
            }
        }
        Ok(())
    };
    let makes = format!("echo some bytes to be locked > /mnt/a/ground/locked-{held}-{wanted}");
    ground.on(0, &format!("rm -f /tmp/held /tmp/held.locked; {makes}"))?;
    std::thread::scope(|scope| {
        let hold = locked("a", held, 10, 10) + " /tmp/held";
        let holder = scope.spawn(move || ground.on(0, &hold));
        let tried = attempts();
        let stopped = ground.on(0, "touch /tmp/held").map(drop);
        let holding = holder.join().map_err(|_| "the holder panicked")?;
        tried.and(stopped).and(holding.map(drop))
    })?;
    match refused(1, "b", 15, 1)? {
        true => Err("bytes stay locked after their holder has ended".to_owned()),
        false => Ok(()),
    }
}

/// Waits until a file is there on a guest.
fn wait_for(guest: &Guest, file: &str) -> Outcome {
    let script =
        format!("for i in $(seq 100); do test -e {file} && exit 0; sleep 0.2; done; exit 1");
    guest.run(&script, SHORT).map(drop)
}

/// Eight writers by four gateways append to one file under a lock: every record is there, whole and once.
fn append(ground: &Ground<'_>, version: &str) -> Outcome {
    if version == "3" {
        println!("   left out: needs locks");
        return Ok(());
    }
    let path = script("append.py");
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let at = ["a", "b"][writer / 2 % 2];
                let script = format!(
                    "python3 {} /mnt/{at}/ground/appended {writer} {RECORDS}",
                    path.display()
                );
                scope.spawn(move || ground.guests[writer % 2].run(&script, LONG).map(drop))
            })
            .collect();
        let joined = writers.into_iter().map(|writer| writer.join());
        joined
            .map(|done| done.map_err(|_| "a writer panicked".to_owned())?)
            .collect()
    });
    outcomes.into_iter().collect::<Outcome>()?;
    let expected = |writer: usize| {
        (0..RECORDS).map(move |number| format!("{writer} {number} {}", "x".repeat(number % 37)))
    };
    let mut expected: Vec<String> = (0..8).flat_map(expected).collect();
    expected.sort();
    for guest in 0..2 {
        let found = ground.on(guest, "cat /mnt/b/ground/appended")?;
        let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
        found.sort();
        if found != expected {
            let missing = expected.iter().filter(|line| !found.contains(line)).count();
            return Err(format!(
                "guest {guest} reads {} records, {missing} of {} are missing",
                found.len(),
                expected.len()
            ));
        }
    }
    Ok(())
}

/// Random operations on one file.
fn fsx(ground: &Ground<'_>, version: &str) -> Outcome {
    let settings = suites::FSX_SETTINGS.replace("CLOSE_OPEN", suites::SELDOM);
    // What NFS has no operation for, or only version 4.2.
    let has = |line: &&str| {
        let only_new = ["punch_hole", "posix_fallocate", "copy_file_range"];
        version == "4.2" || !only_new.iter().any(|name| line.starts_with(name))
    };
    let settings: Vec<&str> = settings.lines().filter(has).collect();
    let script = format!(
        "cat > /tmp/fsx.toml <<'END'\n{}\nEND\n\
         {} -f /tmp/fsx.toml -N {FSX_OPERATIONS} -S {} -P /tmp /mnt/a/ground/fsx",
        settings.join("\n"),
        ground.tools.join("bin/fsx").display(),
        suites::seed_of_now(),
    );
    let outcome = ground.guests[0].run(&script, LONG);
    outcome.map(drop)
}

/// Unpacks sources there and builds them; the products' checksums.
fn built(ground: &Ground<'_>, guest: usize, directory: &str) -> Result<String, String> {
    let sources = ground.sources.display();
    ground.guests[guest].run(
        &format!(
            "export SOURCE_DATE_EPOCH=1; mkdir -p {directory}; cd {directory}; tar -C {sources} -cf - . | tar -xf - ; mkdir out; \
             for source in src/*.c src/prim/prim.c; do \
               case $source in */static.c|*/alloc-override.c|*/page-queue.c|*/free.c) continue;; esac; \
               cc -O1 -Iinclude -Isrc -c $source -o out/$(basename $source .c).o; \
             done; \
             cd out; ar rcD all.a *.o; \
             printf '#include <mimalloc.h>\\nint main(void) {{ void *p = mi_malloc(9); mi_free(p); return !p; }}\\n' > main.c; \
             cc -I../include main.c all.a -lpthread -o main; ./main; cd ..; \
             find . -type f | sort | xargs sha256sum"
        ),
        LONG,
    )
}

/// A source tree is unpacked and built; nothing differs from a build elsewhere.
fn build(ground: &Ground<'_>, _version: &str) -> Outcome {
    same_build(
        &built(ground, 0, "/tmp/built")?,
        &built(ground, 0, "/mnt/a/ground/built")?,
    )?;
    ground.on(0, "rm -r /tmp/built")?;
    // By the other guest, through another gateway.
    let found = ground.on(
        1,
        "cd /mnt/b/ground/built; find . -type f | sort | xargs sha256sum",
    )?;
    let first = ground.on(
        0,
        "cd /mnt/a/ground/built; find . -type f | sort | xargs sha256sum",
    )?;
    same_build(&first, &found)
}

fn same_build(expected: &str, found: &str) -> Outcome {
    let [expected, found] = [expected, found].map(|sums| sums.lines().collect::<BTreeSet<_>>());
    let differ: Vec<_> = expected.symmetric_difference(&found).take(12).collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(format!("products differ:\n{differ:#?}")),
    }
}

/// The address of a gateway moves to another one when that is killed, in the middle of a build: the client goes on.
fn failover(ground: &Ground<'_>, version: &str) -> Outcome {
    let front = Front::to(ground.gateways[0])?;
    let guest = &ground.guests[0];
    // A client that knows a gateway by another address, too, may use that one.
    guest.run("umount /mnt/a /mnt/b", SHORT)?;
    mount(guest, version, front.port(), "front")?;
    guest.run("mkdir -p /mnt/front/ground/probed; rm -f /tmp/stop", SHORT)?;
    let expected = built(ground, 1, "/tmp/expected")?;
    let probe = format!(
        "python3 {} /mnt/front/ground/probed /tmp/stop",
        script("probe.py").display()
    );
    let (found, probed, kills) = std::thread::scope(|scope| {
        let probing = scope.spawn(|| guest.run(&probe, LONG));
        let killing = scope.spawn(|| -> Result<u32, String> {
            let mut kills = 0;
            while guest.status("test -e /tmp/stop", SHORT)?.0 != 0 {
                std::thread::sleep(Duration::from_secs(8));
                let (now, next) = (kills as usize % 2, (kills as usize + 1) % 2);
                ground.cluster.order("kill", &format!("nfs:{}", now + 1))?;
                front.lead_to(ground.gateways[next]);
                std::thread::sleep(Duration::from_secs(3));
                ground.cluster.order("start", &format!("nfs:{}", now + 1))?;
                kills += 1;
            }
            Ok(kills)
        });
        let found = built(ground, 0, "/mnt/front/ground/failed-over");
        let stopped = guest.run("touch /tmp/stop", SHORT);
        let probed = probing.join().map_err(|_| "the probe panicked".to_owned());
        let kills = killing.join().map_err(|_| "the killer panicked".to_owned());
        (found, stopped.and(probed.flatten()), kills.flatten())
    });
    let (probed, kills) = (probed?, kills?);
    same_build(&expected, &found?)?;
    let mut figures = probed.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(longest)), Some(Ok(count))) = (figures.next(), figures.next()) else {
        return Err(format!("the probe says {probed:?}"));
    };
    println!("   {kills} gateways killed; the longest of {count} files took {longest} ms");
    guest.run(
        "rm -r /mnt/front/ground/failed-over; umount /mnt/front",
        SHORT,
    )?;
    ground.on(1, "rm -r /tmp/expected")?;
    ground.mount_on(0, version)?;
    match Duration::from_millis(longest) < PAUSE && kills > 0 {
        true => Ok(()),
        false => Err(format!("{kills} gateways killed, a pause of {longest} ms")),
    }
}

/// A lock is held by way of an address that moves between gateways, which are killed in turn; nobody else gets it
/// meanwhile, and its holder goes on.
fn held(ground: &Ground<'_>, version: &str) -> Outcome {
    if version == "3" {
        println!("   left out: locks of version 3 are another protocol");
        return Ok(());
    }
    let front = Front::to(ground.gateways[0])?;
    let guest = &ground.guests[0];
    guest.run("umount /mnt/a /mnt/b", SHORT)?;
    mount(guest, version, front.port(), "front")?;
    guest.run(
        "rm -f /tmp/stop /tmp/stop.locked; : > /mnt/front/ground/held",
        SHORT,
    )?;
    let hold = format!(
        "python3 {} /mnt/front/ground/held /tmp/stop",
        script("holds.py").display()
    );
    // By a gateway that lives: 11 is a refusal.
    let is_free = || -> Result<bool, String> {
        let locked = script("locked.py");
        let attempt = format!("python3 {} /mnt/a/ground/held alone 0 8", locked.display());
        match ground.guests[1].status(&attempt, SHORT)? {
            (0, _) => Ok(true),
            (11, _) => Ok(false),
            (status, output) => Err(format!("status {status}: {output}")),
        }
    };
    let killing = || -> Outcome {
        for kills in 0..HOLDING_KILLS {
            let (now, next) = (kills % 2, (kills + 1) % 2);
            ground.cluster.order("kill", &format!("nfs:{}", now + 1))?;
            front.lead_to(ground.gateways[next]);
            for _ in 0..LOOKS {
                if is_free()? {
                    return Err(format!("the lock is free after {} kills", kills + 1));
                }
            }
            ground.cluster.order("start", &format!("nfs:{}", now + 1))?;
        }
        Ok(())
    };
    let (said, tried) = std::thread::scope(|scope| {
        let holding = scope.spawn(|| guest.run(&hold, LONG));
        let tried = wait_for(guest, "/tmp/stop.locked").and_then(|()| killing());
        let stopped = guest.run("touch /tmp/stop", SHORT).map(drop);
        let said = holding.join().map_err(|_| "the holder panicked".to_owned());
        (said.flatten(), tried.and(stopped))
    });
    let said = said?;
    tried?;
    let mut figures = said.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(longest)), Some(Ok(count))) = (figures.next(), figures.next()) else {
        return Err(format!("the holder says {said:?}"));
    };
    println!("   {HOLDING_KILLS} gateways killed; the longest of {count} writes took {longest} ms");
    let is_free = is_free()?;
    guest.run("umount /mnt/front", SHORT)?;
    ground.mount_on(0, version)?;
    match is_free {
        true => Ok(()),
        false => Err("the lock is held on when its holder has ended".into()),
    }
}

/// The Connectathon's tests, if a built checkout of them is named.
fn cthon(ground: &Ground<'_>, version: &str) -> Outcome {
    let Some(checkout) = std::env::var_os(CTHON).map(PathBuf::from) else {
        println!("   left out: {CTHON} names no built checkout of cthon04");
        return Ok(());
    };
    for group in ["basic", "general", "special", "lock"] {
        if group == "lock" && version == "3" {
            println!("   lock is left out: locks of version 3 are another protocol");
            continue;
        }
        // Its scripts write beside themselves: a guest's own file system takes that.
        let script = format!(
            "rm -rf /mnt/a/ground/cthon; cd {}/{group} && \
             NFSTESTDIR=/mnt/a/ground/cthon MNTOPTIONS=vers={version} sh ./runtests -t 2>&1",
            checkout.display()
        );
        let (status, output) = ground.guests[0].status(&script, LONG)?;
        let log = ground.run.join(format!("cthon-{group}-{version}.log"));
        fs::write(&log, &output).map_err(|error| format!("{}: {error}", log.display()))?;
        if status != 0 {
            let last = output.lines().rev().take(6).collect::<Vec<_>>();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(format!("{group}: status {status}:\n{}", last.join("\n")));
        }
        println!("   {group} passed");
    }
    ground.on(0, "rm -rf /mnt/a/ground/cthon").map(drop)
}

/// POSIX calls, as far as NFS has them.
fn pjdfstest(ground: &Ground<'_>, version: &str) -> Outcome {
    let expected: Vec<&str> = EXPECTED_FAILURES
        .iter()
        .filter(|(versions, _)| versions.contains(&version))
        .map(|(_, test)| *test)
        .collect();
    let settings = format!(
        "[features]\nrename_ctime = {{}}\nutimensat = {{}}\nutime_now = {{}}\n\
         [settings]\nnaptime = 0.01\nallow_remount = false\nexpected_failures = {expected:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
    );
    let script = format!(
        "mkdir /mnt/a/ground/pjd; cat > /tmp/pjd.toml <<'END'\n{settings}END\n\
         {} -c /tmp/pjd.toml -p /mnt/a/ground/pjd {} || true; rm -rf /mnt/a/ground/pjd",
        ground.tools.join("bin/pjdfstest").display(),
        ground.filter.as_deref().unwrap_or_default(),
    );
    let output = ground.guests[0].run(&script, LONG)?;
    let log = ground.run.join(format!("pjdfstest-{version}.log"));
    fs::write(&log, &output).map_err(|error| format!("{}: {error}", log.display()))?;
    for line in output.lines().filter(|line| line.ends_with("FAILED")) {
        println!("   {line}");
    }
    let summary = output.lines().rfind(|line| line.starts_with("Summary"));
    let summary = summary.ok_or("it did not come to its end")?;
    println!("   {summary}");
    match summary.contains(" 0 failed") {
        true => Ok(()),
        false => Err(summary.to_owned()),
    }
}
