//! Images: the saved state at one sn, as records whose content is the caller's.
//!
//! An image is written under a temporary name, flushed and renamed: one that has its name is whole,
//! unless the disk changed it, which the checksums tell.

use crate::files::{HEADER_BYTES, Header, IMAGE_MAGIC, image_path};
use crate::{JournalError, Location, kept_path, record};
use bytes::{Buf, Bytes, BytesMut};
use std::path::{Path, PathBuf};
use weft_env::{Env, File, OpenMode};
use weft_types::{Epoch, Sn};

/// Longest record, in bytes.
pub const RECORD_MAX: usize = 16 << 20;
/// Ends the name of an image that is being written.
pub(crate) const UNFINISHED: &str = ".unfinished";
const RECORD_MAGIC: &[u8; 4] = b"WREC";
const TRAILER_MAGIC: &[u8; 4] = b"WEND";
/// Gathered before it is written: large writes leave the owner loop's thread.
const CHUNK_BYTES: usize = 512 << 10;
/// Longest digest.
const DIGEST_MAX: usize = 64;

/// Writes one image. Dropped before [`ImageWriter::finish`] it leaves a file that
/// [`crate::remove_images`] clears away.
pub struct ImageWriter {
    env: Env,
    dir: PathBuf,
    temporary: PathBuf,
    /// Its name when it is whole.
    path: PathBuf,
    file: File,
    buffer: BytesMut,
    offset: u64,
    count: u64,
}

impl ImageWriter {
    /// Begins the image of the state after batch `sn`, of epoch `epoch`.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn create(
        env: &Env,
        location: &Location,
        sn: Sn,
        epoch: Epoch,
    ) -> Result<ImageWriter, JournalError> {
        let path = image_path(&location.dir, sn);
        ImageWriter::create_at(env, location, path, Header { sn, epoch: epoch.0 }).await
    }

    /// Begins the image that is kept for a checkpoint: of the state after batch `sn`, of epoch `epoch`.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn keep(
        env: &Env,
        location: &Location,
        checkpoint: u64,
        (sn, epoch): (Sn, Epoch),
    ) -> Result<ImageWriter, JournalError> {
        let path = kept_path(&location.dir, checkpoint);
        ImageWriter::create_at(env, location, path, Header { sn, epoch: epoch.0 }).await
    }

    async fn create_at(
        env: &Env,
        location: &Location,
        path: PathBuf,
        header: Header,
    ) -> Result<ImageWriter, JournalError> {
        let mut name = path.clone().into_os_string();
        name.push(UNFINISHED);
        let temporary = PathBuf::from(name);
        let file = env
            .open(&temporary, OpenMode::CreateEmpty)
            .await
            .map_err(|error| JournalError::io(&temporary, "making it", error))?;
        let header = header.encode(IMAGE_MAGIC, location)?;
        Ok(ImageWriter {
            env: env.clone(),
            dir: location.dir.clone(),
            temporary,
            path,
            file,
            buffer: BytesMut::from(&header[..]),
            offset: 0,
            count: 0,
        })
    }

    /// Adds a record of at most [`RECORD_MAX`] bytes.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn add(&mut self, content: &[u8]) -> Result<(), JournalError> {
        assert!(
            content.len() <= RECORD_MAX,
            "the state is saved in small records"
        );
        self.count += 1;
        self.buffer
            .extend_from_slice(&record::head(RECORD_MAGIC, content));
        self.buffer.extend_from_slice(content);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Ends the image with the digest of the state, and gives it its name.
    ///
    /// # Errors
    /// If the disk refuses; the image is then not there.
    pub async fn finish(mut self, digest: &[u8]) -> Result<(), JournalError> {
        assert!(digest.len() <= DIGEST_MAX, "digests are short");
        let mut trailer = self.count.to_le_bytes().to_vec();
        trailer.extend_from_slice(digest);
        self.buffer
            .extend_from_slice(&record::head(TRAILER_MAGIC, &trailer));
        self.buffer.extend_from_slice(&trailer);
        self.flush().await?;
        let io = |action| {
            let path = self.temporary.clone();
            move |error| JournalError::io(&path, action, error)
        };
        self.file.sync_data().await.map_err(io("flushing"))?;
        self.env
            .rename(&self.temporary, &self.path)
            .map_err(io("renaming"))?;
        self.env
            .sync_dir(&self.dir)
            .await
            .map_err(io("flushing its name"))
    }

    async fn flush(&mut self) -> Result<(), JournalError> {
        let bytes = self.buffer.split().freeze();
        let length = bytes.len() as u64;
        self.file
            .write_at(self.offset, vec![bytes])
            .await
            .map_err(|error| JournalError::io(&self.temporary, "writing", error))?;
        self.offset += length;
        Ok(())
    }
}

/// Reads one image.
pub struct ImageReader {
    file: File,
    path: PathBuf,
    sn: Sn,
    epoch: Epoch,
    buffer: BytesMut,
    offset: u64,
    count: u64,
    digest: Option<Bytes>,
}

impl ImageReader {
    /// Opens the image of this sn.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is another cluster's or version's.
    pub async fn open(env: &Env, location: &Location, sn: Sn) -> Result<ImageReader, JournalError> {
        let path = image_path(&location.dir, sn);
        ImageReader::open_at(env, location, path, Some(sn)).await
    }

    /// Opens the image that is kept for a checkpoint.
    ///
    /// # Errors
    /// As [`ImageReader::open`].
    pub async fn open_kept(
        env: &Env,
        location: &Location,
        checkpoint: u64,
    ) -> Result<ImageReader, JournalError> {
        let path = kept_path(&location.dir, checkpoint);
        ImageReader::open_at(env, location, path, None).await
    }

    /// Opens the image of a file; `sn` is what its name says.
    ///
    /// # Errors
    /// As [`ImageReader::open`].
    pub async fn open_at(
        env: &Env,
        location: &Location,
        path: PathBuf,
        sn: Option<Sn>,
    ) -> Result<ImageReader, JournalError> {
        let file = env
            .open(&path, OpenMode::Read)
            .await
            .map_err(|error| JournalError::io(&path, "opening", error))?;
        let mut reader = ImageReader {
            file,
            path,
            sn: Sn(0),
            epoch: Epoch(0),
            buffer: BytesMut::new(),
            offset: 0,
            count: 0,
            digest: None,
        };
        reader.fill(HEADER_BYTES).await?;
        let header = Header::decode(&reader.buffer, IMAGE_MAGIC, location)
            .map_err(|error| error.at(&reader.path))?;
        if let Some(sn) = sn.filter(|sn| *sn != header.sn) {
            return Err(reader.damaged(format!("its name says {sn}, its header {}", header.sn)));
        }
        reader.take(HEADER_BYTES);
        (reader.sn, reader.epoch) = (header.sn, Epoch(header.epoch));
        Ok(reader)
    }

    /// Epoch of the last batch that is in it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The sn of the last batch that is in it.
    pub fn sn(&self) -> Sn {
        self.sn
    }

    /// Where the file is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next record; None when the trailer has been reached and agrees.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] if the bytes are not as they were written.
    pub async fn next(&mut self) -> Result<Option<Bytes>, JournalError> {
        if self.digest.is_some() {
            return Ok(None);
        }
        self.fill(record::HEAD_BYTES).await?;
        let is_trailer = self.buffer.get(..4) == Some(TRAILER_MAGIC);
        let (magic, max) = if is_trailer {
            (TRAILER_MAGIC, 8 + DIGEST_MAX)
        } else {
            (RECORD_MAGIC, RECORD_MAX)
        };
        let Some(length) = record::length(&self.buffer, magic, max) else {
            return Err(self.damaged("neither a record nor the trailer".into()));
        };
        self.fill(record::HEAD_BYTES + length).await?;
        if !record::is_good(&self.buffer, magic, max) {
            return Err(self.damaged("a record is cut off or its checksum is wrong".into()));
        }
        let mut content = self.take(record::HEAD_BYTES + length);
        content.advance(record::HEAD_BYTES);
        if !is_trailer {
            self.count += 1;
            return Ok(Some(content));
        }
        if content.len() < 8 || content.get_u64_le() != self.count {
            return Err(self.damaged("the trailer counts other records than there are".into()));
        }
        self.fill(1).await?;
        if !self.buffer.is_empty() {
            return Err(self.damaged("there is something after the trailer".into()));
        }
        self.digest = Some(content);
        Ok(None)
    }

    /// The digest of the state, once [`ImageReader::next`] has returned None.
    pub fn digest(&self) -> Option<&[u8]> {
        self.digest.as_deref()
    }

    /// An error about this image, for callers that find its content wrong.
    pub fn damaged(&self, what: String) -> JournalError {
        JournalError::Corrupt {
            path: self.path.clone(),
            offset: self.offset,
            what,
            advice: "An older image and the journal after it hold the same; move this one away"
                .into(),
        }
    }

    async fn fill(&mut self, bytes: usize) -> Result<(), JournalError> {
        while self.buffer.len() < bytes {
            let at = self.offset + self.buffer.len() as u64;
            let wanted = CHUNK_BYTES.max(bytes - self.buffer.len());
            let chunk = self
                .file
                .read_at(at, wanted)
                .await
                .map_err(|error| JournalError::io(&self.path, "reading", error))?;
            if chunk.is_empty() {
                return Ok(());
            }
            self.buffer.extend_from_slice(&chunk);
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        self.offset += bytes as u64;
        self.buffer.split_to(bytes).freeze()
    }
}
