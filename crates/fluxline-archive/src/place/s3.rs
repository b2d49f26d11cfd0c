//! An archive in a bucket of S3, or of a server that speaks it (MinIO, Garage).
//!
//! The key, its region and the address of the server are in the variables `AWS_*`, and nowhere
//! else. Files above 8 MiB go in parts. A file appears once it is whole: S3 promises it.
//! Source: Amazon S3 API Reference, PutObject, If-None-Match; Amazon S3 User Guide, "Amazon S3
//! multipart upload limits": 5 MiB to 5 GiB a part, 10,000 parts.

use std::future::Future;
use std::io::{self, Read};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use object_store::{PutOptions, RetryConfig};
use tokio::runtime::Runtime;

use super::{Place, PutError, join};
use crate::error::{ArchiveError, failed, input};

/// The smallest part \[byte\].
const PART_BYTES_MIN: u64 = 8 << 20;
/// Most parts of a file: some below the limit of S3, since a compressed file may grow.
const PARTS_MAX: u64 = 9_000;
/// Longest time for a connection, for a request with a part, and for all tries of a request.
const CONNECT: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(300);
const TRIES: Duration = Duration::from_secs(60);
/// Most further tries of a request.
const TRIES_MAX: usize = 5;
/// The longest text of an error \[character\].
const REASON_CHARACTERS_MAX: usize = 300;

type Bytes = <PutPayload as IntoIterator>::Item;

/// A part of a bucket with the files of one archive.
pub struct S3 {
    address: String,
    prefix: String,
    store: AmazonS3,
    runtime: Runtime,
}

impl S3 {
    /// Opens `BUCKET/PREFIX`, and the run `name` in it. No request is made yet.
    pub fn open(address: &str, name: &str) -> Result<S3, ArchiveError> {
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        if bucket.is_empty() {
            return Err(input!("s3://{address} has no bucket; write s3://BUCKET/PREFIX."));
        }
        let prefix = join(prefix, name);
        let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        for (key, variable) in [
            (AmazonS3ConfigKey::AccessKeyId, "AWS_ACCESS_KEY_ID"),
            (AmazonS3ConfigKey::SecretAccessKey, "AWS_SECRET_ACCESS_KEY"),
        ] {
            if builder.get_config_value(&key).is_none() {
                return Err(input!(
                    "{variable} is not set; export the key for s3://{bucket} as \
                     AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
                ));
            }
        }
        // The user wrote http:// into the variable: a server of the laboratory without TLS.
        let keys = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
        let endpoint = keys.iter().filter_map(|key| builder.get_config_value(key)).next_back();
        let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = ClientOptions::new().with_connect_timeout(CONNECT).with_timeout(REQUEST);
        let retry =
            RetryConfig { max_retries: TRIES_MAX, retry_timeout: TRIES, ..RetryConfig::default() };
        // Another part of the program may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder =
            builder.with_client_options(client.with_allow_http(is_plain)).with_retry(retry);
        let store = builder.build();
        let store = store.map_err(|error| input!("s3://{bucket}: {}.", reason(&error)))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed!("no thread for S3: {error}."))?;
        Ok(S3 { address: format!("s3://{}", join(bucket, &prefix)), prefix, store, runtime })
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    fn put_parts(
        &self,
        path: &Path,
        first: Vec<u8>,
        reader: &mut dyn Read,
    ) -> Result<u64, PutError> {
        let part_bytes = first.len();
        let mut upload = self.wait(self.store.put_multipart(path)).map_err(not_put)?;
        let mut bytes = 0;
        let mut part = first;
        let mut send = || -> Result<(), PutError> {
            while !part.is_empty() {
                bytes += part.len() as u64;
                let payload = PutPayload::from(std::mem::take(&mut part));
                self.wait(upload.put_part(payload)).map_err(not_put)?;
                part = piece(reader, part_bytes)?;
            }
            self.wait(upload.complete()).map_err(not_put)?;
            Ok(())
        };
        if let Err(error) = send() {
            // Parts of an upload that was not completed take room, and are not seen.
            let _ = self.wait(upload.abort());
            return Err(error);
        }
        Ok(bytes)
    }
}

/// Reads a piece; it is shorter only at the end.
fn piece(reader: &mut dyn Read, bytes: usize) -> Result<Vec<u8>, PutError> {
    let mut piece = Vec::with_capacity(bytes);
    let read = reader.take(bytes as u64).read_to_end(&mut piece);
    read.map_err(|error| PutError::Failed(error.to_string()))?;
    Ok(piece)
}

/// Returns the reason of an error as one short line.
fn reason(error: &Error) -> String {
    let text = error.to_string().replace(char::is_control, " ");
    text.trim_end_matches(['.', ' ']).chars().take(REASON_CHARACTERS_MAX).collect()
}

fn not_put(error: Error) -> PutError {
    match error {
        Error::AlreadyExists { .. } | Error::Precondition { .. } => PutError::Exists,
        error => PutError::Failed(reason(&error)),
    }
}

impl Place for S3 {
    fn address(&self) -> &str {
        &self.address
    }

    fn put(
        &self,
        name: &str,
        reader: &mut dyn Read,
        bytes: u64,
        may_replace: bool,
    ) -> Result<u64, PutError> {
        let path = self.path(name);
        let part_bytes = PART_BYTES_MIN.max(bytes / PARTS_MAX + 1);
        let first = piece(reader, usize::try_from(part_bytes).unwrap_or(usize::MAX))?;
        if (first.len() as u64) < part_bytes {
            let size = first.len() as u64;
            let mode = if may_replace { PutMode::Overwrite } else { PutMode::Create };
            let options = PutOptions::from(mode);
            let put = self.store.put_opts(&path, PutPayload::from(first), options);
            return self.wait(put).map(|_| size).map_err(not_put);
        }
        // Parts have no condition in this interface.
        if !may_replace && self.wait(self.store.head(&path)).is_ok() {
            return Err(PutError::Exists);
        }
        self.put_parts(&path, first, reader)
    }

    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + '_>>, ArchiveError> {
        match self.wait(self.store.get(&self.path(name))) {
            Ok(found) => {
                let (stream, rest) = (found.into_stream(), Bytes::new());
                Ok(Some(Box::new(Chunks { runtime: &self.runtime, stream, rest })))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed!("{} does not answer: {}.", self.address, reason(&error))),
        }
    }

    fn other_file(&self, known: &[String]) -> Result<Option<String>, ArchiveError> {
        let known: Vec<Path> = known.iter().map(|name| self.path(name)).collect();
        let mut list = self.store.list(Some(&Path::from(self.prefix.as_str())));
        while let Some(found) = self.wait(list.next()) {
            let found = found.map_err(|error| {
                failed!("{} cannot be listed: {}.", self.address, reason(&error))
            })?;
            if !known.contains(&found.location) {
                return Ok(Some(found.location.to_string()));
            }
        }
        Ok(None)
    }
}

/// The bytes of an object as they arrive.
struct Chunks<'a> {
    runtime: &'a Runtime,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    rest: Bytes,
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.runtime.block_on(self.stream.next()) {
                None => return Ok(0),
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(error)) => return Err(io::Error::other(reason(&error))),
            }
        }
        let bytes = into.len().min(self.rest.len());
        into[..bytes].copy_from_slice(&self.rest.split_to(bytes));
        Ok(bytes)
    }
}
