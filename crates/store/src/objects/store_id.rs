//! `store.json`: the id of the store that the objects belong to, and the version of their layout.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::ids::StoreId;
use crate::objects::{Objects, translate};

#[derive(Serialize, Deserialize)]
struct StoreFile {
    store_id: String,
    format: u64,
}

impl Objects {
    /// The id of the store that these objects belong to; `None` where none was written.
    pub async fn store_id(&self) -> Result<Option<StoreId>> {
        let read = async { self.store.get(&Path::from(STORE_FILE)).await?.bytes().await };
        let text: Bytes = match read.await {
            Ok(text) => text,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(source) => return Err(translate("read", STORE_FILE, source)),
        };
        let file: StoreFile = serde_json::from_slice(&text)
            .map_err(|source| Error::caused(ErrorKind::Corrupt, format!("object {STORE_FILE}"), source))?;
        if file.format != FORMAT {
            let message = format!(
                "object {STORE_FILE}: the objects have layout version {}, this program knows {FORMAT}; use a newer drystone",
                file.format
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        file.store_id.parse().map(Some)
    }

    /// Writes the id.
    pub(crate) async fn put_store_id(&self, id: &StoreId) -> Result<()> {
        let file = StoreFile { store_id: id.to_string(), format: FORMAT };
        let text = serde_json::to_vec(&file)
            .map_err(|source| Error::caused(ErrorKind::Internal, STORE_FILE, source))?;
        let put = self.store.put(&Path::from(STORE_FILE), PutPayload::from(text)).await;
        put.map(|_| ()).map_err(|source| translate("write", STORE_FILE, source))
    }
}

pub(super) const STORE_FILE: &str = "store.json";

const FORMAT: u64 = 1;
