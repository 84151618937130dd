//! The slots of connections: how many there are in total and for each address, and which is given up for a new one.
//!
//! A connection without a request is idle, also while it sends half a header: it can always be closed, and its client opens
//! another. So idle connections keep nobody out: when slots run out, the one that has been idle for longest is closed for the
//! one that comes. What counts against an address is therefore its requests.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::ConnectionLimits;
use crate::net::rate::network;

/// All slots. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    table: Arc<Mutex<Table>>,
    freed: Arc<Notify>,
    limits: ConnectionLimits,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<u64, Entry>,
    /// Idle connections by when they became idle.
    idle: BTreeMap<u64, u64>,
    addresses: HashMap<IpAddr, Address>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    /// Its slot in the order of idle connections; `None` while it has a request, or is being closed.
    idle: Option<u64>,
    is_evicted: bool,
    evicted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Address {
    connections: usize,
    requests: usize,
    idle: BTreeMap<u64, u64>,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It has a slot.
    Yes(Arc<Slot>),
    /// All slots are taken by requests: it waits.
    Full,
    /// Its address has all it may have.
    AddressFull,
}

impl Slots {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self { table: Arc::default(), freed: Arc::default(), limits }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a connection of this address.
    pub(crate) fn admit(&self, address: IpAddr) -> Admitted {
        let address = network(address);
        let mut table = self.table();
        let table = &mut *table;
        // Those that are being closed still have their slots for a moment.
        if table.slots.len() >= self.limits.total.saturating_add(CLOSING_MAX) {
            return Admitted::Full;
        }
        let known = table.addresses.entry(address).or_default();
        if known.connections >= self.limits.per_address {
            let oldest = known.idle.first_key_value().map(|(_, id)| *id);
            match oldest {
                Some(id) => table.evict(id),
                // One more than requests may take is for health checks.
                None if known.connections < self.limits.per_address.saturating_add(SPARE) => {}
                None => {
                    table.forget(address);
                    return Admitted::AddressFull;
                }
            }
        } else if table.slots.len() >= self.limits.total {
            match table.idle.first_key_value().map(|(_, id)| *id) {
                Some(id) => table.evict(id),
                None => {
                    table.forget(address);
                    return Admitted::Full;
                }
            }
        }
        let (id, evicted) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        let entry = Entry { address, idle: None, is_evicted: false, evicted: evicted.clone() };
        table.slots.insert(id, entry);
        table.addresses.entry(address).or_default().connections += 1;
        table.set_idle(id);
        let now = Instant::now();
        let since = Since { phase: Phase::Opened, at: now };
        Admitted::Yes(Arc::new(Slot { id, slots: self.clone(), evicted, since: Mutex::new(since) }))
    }

    /// Done when a slot may be free.
    pub(crate) async fn freed(&self) {
        // A connection may also become idle, which sends no notification.
        let _ = tokio::time::timeout(Duration::from_millis(20), self.freed.notified()).await;
    }
}

impl Table {
    fn set_idle(&mut self, id: u64) {
        let number = self.next;
        let Some(entry) = self.slots.get_mut(&id) else { return };
        if entry.is_evicted || entry.idle.is_some() {
            return;
        }
        self.next += 1;
        entry.idle = Some(number);
        self.idle.insert(number, id);
        self.addresses.entry(entry.address).or_default().idle.insert(number, id);
    }

    fn unset_idle(&mut self, id: u64) {
        let Some(entry) = self.slots.get_mut(&id) else { return };
        if let Some(number) = entry.idle.take() {
            self.idle.remove(&number);
            self.addresses.entry(entry.address).or_default().idle.remove(&number);
        }
    }

    fn evict(&mut self, id: u64) {
        self.unset_idle(id);
        if let Some(entry) = self.slots.get_mut(&id) {
            metrics::counter!("drystone_connections_evicted_total").increment(1);
            entry.is_evicted = true;
            entry.evicted.notify_one();
        }
    }

    /// Forgets an address without connections.
    fn forget(&mut self, address: IpAddr) {
        if self.addresses.get(&address).is_some_and(|known| known.connections == 0) {
            self.addresses.remove(&address);
        }
    }
}

/// The slot of one connection, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    slots: Slots,
    evicted: Arc<Notify>,
    since: Mutex<Since>,
}

/// What a connection is doing, and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    pub(crate) phase: Phase,
    pub(crate) at: Instant,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It was opened, and has sent no whole header.
    Opened,
    /// It has a request, or an answer on its way.
    Busy,
    /// Its answer is complete, and may be in buffers.
    Answered,
    /// It waits for another request.
    Waiting,
    /// It has sent a part of another header.
    Head,
}

impl Slot {
    /// Done when the connection should be closed for another.
    pub(crate) async fn evicted(&self) {
        loop {
            self.evicted.notified().await;
            if self.slots.table().slots.get(&self.id).is_some_and(|entry| entry.is_evicted) {
                return;
            }
        }
    }

    /// A request has come. `None` when its address has as many as it may have, unless it must be answered all the same.
    pub(crate) fn begin(self: &Arc<Self>, must_be_answered: bool) -> Option<Busy> {
        let mut table = self.slots.table();
        table.unset_idle(self.id);
        let entry = table.slots.get_mut(&self.id)?;
        // It came before the connection was closed: another goes.
        entry.is_evicted = false;
        let address = entry.address;
        let known = table.addresses.entry(address).or_default();
        if known.requests >= self.slots.limits.per_address && !must_be_answered {
            return None;
        }
        known.requests += 1;
        drop(table);
        self.enter(Phase::Busy);
        Some(Busy(self.clone()))
    }

    pub(crate) fn since(&self) -> Since {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Since { phase, at: Instant::now() };
    }

    /// Bytes came.
    pub(crate) fn has_received(&self) {
        if self.since().phase == Phase::Waiting {
            self.enter(Phase::Head);
        }
    }

    /// Everything that was written is on its way. Returns whether the connection is idle now.
    pub(crate) fn has_flushed(&self) -> bool {
        let is_answered = self.since().phase == Phase::Answered;
        if is_answered {
            self.enter(Phase::Waiting);
            self.slots.table().set_idle(self.id);
        }
        is_answered
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = self.slots.table();
        table.unset_idle(self.id);
        if let Some(entry) = table.slots.remove(&self.id) {
            let known = table.addresses.entry(entry.address).or_default();
            known.connections = known.connections.saturating_sub(1);
            table.forget(entry.address);
        }
        drop(table);
        self.slots.freed.notify_one();
    }
}

/// A request that has no complete answer yet.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Slot>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut table = self.0.slots.table();
        if let Some(address) = table.slots.get(&self.0.id).map(|entry| entry.address) {
            let known = table.addresses.entry(address).or_default();
            known.requests = known.requests.saturating_sub(1);
        }
        drop(table);
        self.0.enter(Phase::Answered);
    }
}

/// Connections of an address beyond its requests: for `/health`, which is answered in any case.
const SPARE: usize = 8;
/// Connections that may be about to be closed.
const CLOSING_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(total: usize, per_address: usize) -> Slots {
        Slots::new(ConnectionLimits { total, per_address })
    }

    fn slot(admitted: Admitted) -> Arc<Slot> {
        match admitted {
            Admitted::Yes(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    async fn is_evicted(slot: &Slot) -> bool {
        tokio::time::timeout(Duration::from_millis(20), slot.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_for_longest_makes_way() {
        let slots = slots(3, 3);
        let [first, second, third] = [1, 2, 3].map(|n| slot(slots.admit(ip(n))));
        let busy = first.begin(false).unwrap();
        let _fourth = slot(slots.admit(ip(4)));
        assert!(is_evicted(&second).await && !is_evicted(&first).await && !is_evicted(&third).await);
        drop((second, busy));
        first.has_flushed();
        let _fifth = slot(slots.admit(ip(5)));
        assert!(is_evicted(&third).await && !is_evicted(&first).await);
    }

    #[tokio::test]
    async fn requests_keep_their_places_and_others_wait() {
        let slots = slots(2, 2);
        let held = [1, 2].map(|n| slot(slots.admit(ip(n))));
        let _busy = held.each_ref().map(|slot| slot.begin(false).unwrap());
        assert!(matches!(slots.admit(ip(3)), Admitted::Full));
        drop(held.into_iter().next());
    }

    #[test]
    fn an_address_has_its_share_of_requests_and_health_is_answered_beyond_it() {
        let slots = slots(100, 2);
        let held: Vec<_> = (0..2 + SPARE).map(|_| slot(slots.admit(ip(1)))).collect();
        let busy: Vec<_> = held.iter().take(2).map(|slot| slot.begin(false).unwrap()).collect();
        assert!(held[2].begin(false).is_none(), "a request too many");
        let well: Vec<_> = held.iter().skip(2).map(|slot| slot.begin(true).unwrap()).collect();
        assert!(matches!(slots.admit(ip(1)), Admitted::AddressFull));
        slot(slots.admit(ip(2)));
        drop((busy, well));
        assert!(held[2].begin(false).is_some());
    }

    #[tokio::test]
    async fn a_request_that_comes_in_the_last_moment_is_answered() {
        let slots = slots(1, 1);
        let first = slot(slots.admit(ip(1)));
        let _second = slot(slots.admit(ip(2)));
        let _busy = first.begin(false).unwrap();
        assert!(!is_evicted(&first).await);
    }

    #[test]
    fn an_ipv6_subnet_is_one_address() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), ip(1));
    }

    #[test]
    fn nothing_is_left_of_connections_that_are_gone() {
        let slots = slots(10, 10);
        for n in 0..5 {
            let slot = slot(slots.admit(ip(n)));
            let busy = slot.begin(false);
            drop(slot);
            drop(busy);
        }
        let table = slots.table();
        assert!(table.slots.is_empty() && table.idle.is_empty() && table.addresses.is_empty());
    }
}
