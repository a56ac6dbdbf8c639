//! The machine's limit for a mirrored write: a plain two-hop relay that receives, checksums, writes
//! and forwards, and nothing else.
//!
//! client --tcp--> hop 1 (checks, writes, forwards) --tcp--> hop 2 (checks, writes) --ack--> client

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const BLOCK: usize = 1 << 20;
/// Blocks on their way at a time.
const WINDOW: u64 = 16;

/// Sends `mib` MiB through the relay into two files in `directory`; returns MiB/s.
///
/// # Errors
/// As the operating system's.
pub fn measure(directory: &Path, mib: u64) -> io::Result<f64> {
    let first = TcpListener::bind("127.0.0.1:0")?;
    let second = TcpListener::bind("127.0.0.1:0")?;
    let (first_address, second_address) = (first.local_addr()?, second.local_addr()?);
    let files = [
        File::create(directory.join("copy0"))?,
        File::create(directory.join("copy1"))?,
    ];
    std::thread::scope(|scope| {
        let [one, two] = &files;
        let last = scope.spawn(move || hop(&second.accept()?.0, None, two, mib));
        let middle = scope.spawn(move || {
            let forward = TcpStream::connect(second_address)?;
            hop(&first.accept()?.0, Some(&forward), one, mib)
        });
        let stream = TcpStream::connect(first_address)?;
        stream.set_nodelay(true)?;
        let block: Vec<u8> = (0..BLOCK).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut acknowledged = 0;
        let start = Instant::now();
        let mut ack = [0; 1];
        for sent in 0..mib {
            while sent - acknowledged >= WINDOW {
                (&stream).read_exact(&mut ack)?;
                acknowledged += 1;
            }
            (&stream).write_all(&crc32c::crc32c(&block).to_le_bytes())?;
            (&stream).write_all(&block)?;
        }
        while acknowledged < mib {
            (&stream).read_exact(&mut ack)?;
            acknowledged += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        for hop in [middle, last] {
            hop.join()
                .map_err(|_| io::Error::other("a hop panicked"))??;
        }
        Ok(mib as f64 / seconds)
    })
}

fn hop(from: &TcpStream, to: Option<&TcpStream>, file: &File, mib: u64) -> io::Result<()> {
    from.set_nodelay(true)?;
    let (mut from, mut sum, mut block) = (from, [0; 4], vec![0; BLOCK]);
    let acknowledge = |mut back: &TcpStream| back.write_all(&[1]);
    std::thread::scope(|scope| {
        // Acknowledgements of the next hop go back as they come.
        let relay = to.map(|to| {
            scope.spawn(move || {
                let mut to = to;
                for _ in 0..mib {
                    to.read_exact(&mut [0; 1])?;
                    acknowledge(from)?;
                }
                Ok::<_, io::Error>(())
            })
        });
        for index in 0..mib {
            from.read_exact(&mut sum)?;
            from.read_exact(&mut block)?;
            if crc32c::crc32c(&block) != u32::from_le_bytes(sum) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if let Some(mut to) = to {
                to.write_all(&sum)?;
                to.write_all(&block)?;
            }
            file.write_all_at(&block, index * BLOCK as u64)?;
            if to.is_none() {
                acknowledge(from)?;
            }
        }
        match relay {
            Some(relay) => relay
                .join()
                .map_err(|_| io::Error::other("the relay panicked"))?,
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_relay_writes_two_equal_copies() {
        let directory = tempfile::tempdir().unwrap();
        assert!(super::measure(directory.path(), 20).unwrap() > 0.0);
        let copy = |name| std::fs::read(directory.path().join(name)).unwrap();
        assert_eq!(copy("copy0").len(), 20 << 20);
        assert!(copy("copy0") == copy("copy1"));
    }
}
