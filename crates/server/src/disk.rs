//! Space on the disk of a local store: an upload is refused while there is still room for everything else.

use std::path::{Path, PathBuf};

use crate::config::ServeConfig;

/// Too little space for an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's disk is almost full: it takes no uploads until there is more room")]
pub(crate) struct DiskFull;

/// The disk that objects are on.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    folder: PathBuf,
    free_bytes_min: u64,
}

impl Disk {
    /// The disk of these settings; `None` where objects are in a bucket, or without a reserve.
    pub(crate) fn of(config: &ServeConfig) -> Option<Self> {
        let folder = match &config.objects {
            None => config.data.clone(),
            Some(url) => PathBuf::from(url.expose().strip_prefix("file://")?),
        };
        let free_bytes_min = config.limits.disk_free_bytes_min;
        (free_bytes_min > 0).then_some(Self { folder, free_bytes_min })
    }

    /// Refuses an upload of `bytes` that would touch the reserve. A disk that reports no free space has enough.
    pub(crate) fn require_space(&self, bytes: u64) -> Result<(), DiskFull> {
        let is_enough = |free: u64| free >= bytes.saturating_add(self.free_bytes_min);
        if free_bytes(&self.folder).is_none_or(is_enough) { Ok(()) } else { Err(DiskFull) }
    }
}

/// Bytes that may still be written where a folder is.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn there_is_room_until_the_reserve_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let free = free_bytes(folder.path()).unwrap();
        assert!(free > 0);
        let disk = |free_bytes_min| Disk { folder: folder.path().to_owned(), free_bytes_min };
        assert!(disk(1).require_space(0).is_ok());
        // Others write to this disk too, so the limits are far from what is free.
        assert!(disk(1).require_space(free.saturating_mul(100)).is_err());
        assert!(disk(u64::MAX).require_space(1).is_err());
        let gone = Disk { folder: folder.path().join("gone"), free_bytes_min: 1 };
        assert!(gone.require_space(u64::MAX - 1).is_ok());
    }

    #[test]
    fn a_bucket_has_no_disk() {
        let mut config = ServeConfig::default();
        assert_eq!(Disk::of(&config).unwrap().folder, config.data);
        config.objects = Some(Secret::new("file:///srv/objects".to_owned()));
        assert_eq!(Disk::of(&config).unwrap().folder, Path::new("/srv/objects"));
        config.objects = Some(Secret::new("s3://bucket".to_owned()));
        assert!(Disk::of(&config).is_none());
        config.objects = None;
        config.limits.disk_free_bytes_min = 0;
        assert!(Disk::of(&config).is_none());
    }
}
