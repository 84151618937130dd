//! The outbox of a connection: parts of files that the system sends by itself, without their bytes coming here.
//!
//! The HTTP library knows memory only. So the body of an answer holds a blank in place of each part: memory that nobody
//! reads, as long as the part. The connection knows a blank by its address and sends the part that lies first in its
//! outbox instead; both keep the order of the body. Only a connection without TLS has an outbox, and a blank for which
//! there is no part breaks the connection: it is never sent itself.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use store::{FilePart, PART_BYTES};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Parts on their way. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    parts: Arc<Mutex<VecDeque<FilePart>>>,
}

/// From here on it pays that the system sends a range by itself: what is short goes out together with its head.
pub const SENT_BY_SYSTEM_BYTES_MIN: u64 = 64 * 1024;

/// What blanks are made of. Never written, so it takes addresses and no memory.
static BLANK: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; PART_BYTES].into());

impl Outbox {
    /// Whether this system can send parts of files.
    pub(super) const IS_OFFERED: bool = cfg!(target_os = "linux");

    /// Lays a part down, and gives the blank to put into the body at once: parts go out in the order they were laid.
    /// `None` for a part that is too long.
    pub fn lay(&self, part: FilePart) -> Option<Bytes> {
        let blank = BLANK.get(..part.len())?;
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push_back(part);
        Some(Bytes::from_static(blank))
    }

    /// Which of the buffers is the first blank, if any is.
    pub(super) fn first_blank(buffers: &[io::IoSlice<'_>]) -> Option<usize> {
        buffers.iter().position(|buffer| is_blank(buffer))
    }

    /// Sends as much of the first part as the socket takes, and as the blank in its place is long.
    pub(super) fn send(
        &self,
        socket: &TcpStream,
        blank_len: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = parts.front_mut() else {
            return Poll::Ready(Err(io::Error::other("there is no part for a blank")));
        };
        let len = part.len().min(blank_len);
        let sent = loop {
            ready!(socket.poll_write_ready(context))?;
            match socket.try_io(Interest::WRITABLE, || send_file(socket, part, len)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => break sent?,
            }
        };
        if sent == 0 {
            // Its answer has announced more.
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        part.range.start += sent as u64;
        if part.range.is_empty() {
            parts.pop_front();
        }
        Poll::Ready(Ok(sent))
    }
}

/// Sends buffers after which more is sent at once: a packet for a head alone would wake the other side for nothing.
pub(super) fn send_more(
    socket: &TcpStream,
    buffers: &[io::IoSlice<'_>],
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        match socket.try_io(Interest::WRITABLE, || send_buffers(socket, buffers)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return Poll::Ready(sent),
        }
    }
}

/// Whether a buffer lies in what blanks are made of.
pub(super) fn is_blank(buffer: &[u8]) -> bool {
    BLANK.as_ptr_range().contains(&buffer.as_ptr()) && !buffer.is_empty()
}

#[cfg(target_os = "linux")]
fn send_file(socket: &TcpStream, part: &FilePart, len: usize) -> io::Result<usize> {
    let mut at = part.range.start;
    Ok(rustix::fs::sendfile(socket, &*part.file, Some(&mut at), len)?)
}

#[cfg(target_os = "linux")]
fn send_buffers(socket: &TcpStream, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    Ok(sendmsg(socket, buffers, &mut SendAncillaryBuffer::default(), flags)?)
}

#[cfg(not(target_os = "linux"))]
fn send_buffers(_: &TcpStream, _: &[io::IoSlice<'_>]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn send_file(_: &TcpStream, _: &FilePart, _: usize) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
