//! Responses to a shard upload: one small body in version 1, a stream of frames in version 2.
//!
//! A frame is one JSON object on a line of its own. Registering a shard may take minutes, and frames show the client
//! that work goes on. The stream ends after a `result` or an `error`; one that ends without either has failed.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{FormatError, expect_range};
use crate::limits;
use crate::wire::{encode_json, parse_json};

/// Result of a shard upload; a number on the wire. Both are success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub enum ShardResult {
    /// 0: it was here already.
    Exists,
    /// 1: it is registered now.
    Registered,
}

impl TryFrom<u64> for ShardResult {
    type Error = FormatError;

    fn try_from(number: u64) -> Result<Self, FormatError> {
        expect_range(0, "shard result", 0, 1, number)?;
        Ok(if number == 0 { Self::Exists } else { Self::Registered })
    }
}

impl From<ShardResult> for u64 {
    fn from(result: ShardResult) -> Self {
        match result {
            ShardResult::Exists => 0,
            ShardResult::Registered => 1,
        }
    }
}

/// Answers a shard upload, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardUploaded {
    /// Result of the upload.
    pub result: ShardResult,
}

/// One frame of an answer to a shard upload, version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Frame {
    /// The shard is compared with what is stored.
    Validating {
        /// How much is done.
        verified: u64,
        /// How much there is; may grow.
        total: u64,
    },
    /// The shard is written.
    Committing {
        /// How far.
        stage: Stage,
    },
    /// The end: done.
    Result {
        /// Result of the upload; not every server sends it.
        #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
        result: Option<ShardResult>,
    },
    /// The end: failed.
    Error {
        /// For people.
        #[serde(default)]
        message: String,
        /// Whether sending the same shard again may help.
        #[serde(default)]
        retryable: bool,
    },
    /// A type of frame that this version does not know. Skip it.
    #[serde(other)]
    Unknown,
}

/// How far writing a shard has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Its bytes are on the way to the store.
    Uploading,
    /// Its files are being entered in the catalog.
    Syncing,
    /// A stage that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Frame {
    /// Whether the stream ends with this frame.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Result { .. } | Self::Error { .. })
    }

    /// The frame as a line, newline included. A message too long for any reader is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = match self {
            Self::Error { message, retryable } if message.len() > MESSAGE_BYTES_MAX => {
                let cut = message.floor_char_boundary(MESSAGE_BYTES_MAX);
                let message = message.get(..cut).unwrap_or_default().to_owned();
                encode_json(&Self::Error { message, retryable: *retryable })
            }
            _ => encode_json(self),
        };
        line.push(b'\n');
        line
    }
}

/// Escaping makes at most six bytes of one, so a message of this length always fits a frame.
const MESSAGE_BYTES_MAX: usize = limits::FRAME_BYTES_MAX / 8;

/// A result the client does not understand is still a success.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ShardResult>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_u64().and_then(|number| ShardResult::try_from(number).ok()))
}

/// Reads frames from bytes that arrive in any pieces.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The line begun in earlier pieces.
    line: Vec<u8>,
    /// Offset of that line in the stream.
    line_at: u64,
    terminated: bool,
}

/// How a stream of frames ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// The frame on a last line without newline, if there was one.
    pub frame: Option<Frame>,
    /// Whether the stream ended with an outcome. One that did not has failed, and it is unknown how far it came.
    pub terminated: bool,
}

impl FrameReader {
    /// Starts at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes from the front of `piece` up to the end of the next frame and returns it; `None` once the piece
    /// is used up. Empty lines are skipped; frames of unknown type are returned as such.
    pub fn read(&mut self, piece: &mut &[u8]) -> Result<Option<Frame>, FormatError> {
        loop {
            let newline = piece.iter().position(|byte| *byte == b'\n');
            let (head, rest) = piece.split_at_checked(newline.unwrap_or(piece.len())).unwrap_or((piece, &[]));
            let max = limits::FRAME_BYTES_MAX;
            if head.len() > max - self.line.len() {
                let (at, max) = (self.line_at, max as u64);
                return Err(FormatError::Range { at, what: "bytes of a frame", min: 0, max, found: max + 1 });
            }
            self.line.extend_from_slice(head);
            *piece = rest.get(1..).unwrap_or_default();
            if newline.is_none() {
                return Ok(None);
            }
            if let Some(frame) = self.take_line(1)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Ends the stream.
    pub fn finish(mut self) -> Result<StreamEnd, FormatError> {
        let frame = self.take_line(0)?;
        Ok(StreamEnd { frame, terminated: self.terminated })
    }

    /// Parses the collected line, which `newline_bytes` follow, and begins the next.
    fn take_line(&mut self, newline_bytes: u64) -> Result<Option<Frame>, FormatError> {
        let at = self.line_at;
        self.line_at += self.line.len() as u64 + newline_bytes;
        let frame = match self.line.trim_ascii() {
            [] => None,
            line => Some(parse_json::<Frame>(line).map_err(|error| match error {
                FormatError::Payload { at: inner, reason } => FormatError::Payload { at: at + inner, reason },
                other => other,
            })?),
        };
        self.line.clear();
        self.terminated |= frame.as_ref().is_some_and(Frame::is_terminal);
        Ok(frame)
    }
}

#[cfg(test)]
mod tests;
