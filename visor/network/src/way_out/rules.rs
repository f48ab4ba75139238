//! What the host's filter does for one device: an nftables table that its netlink socket owns.
//!
//! ```text
//!   table monohull-DEVICE, owned          what nft would call it
//!     forward   iifname DEVICE ip saddr != OWN drop, iifname DEVICE oifname != OUTSIDE drop, … ip daddr …
//!               oifname DEVICE iifname != OUTSIDE drop, oifname DEVICE ct state != established,related drop
//!     out       ip saddr OWN oifname OUTSIDE masquerade
//! ```

use super::Reach;
use ipnet::Ipv4Net;
use netlink_bindings::nftables::{
    Chained, CmpOps, CtKeys, MetaKeys, Nfgenmsg, PayloadBase, PushExprListAttrs, PushRuleAttrs, Registers, TableFlags,
    VerdictCode,
};
use netlink_bindings::traits::NetlinkChained;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

/// `NFPROTO_IPV4`.
const IPV4: u8 = 2;
/// `NFNL_SUBSYS_NFTABLES`: the subsystem of a batch.
const SUBSYSTEM: u16 = 10;
/// `NF_INET_FORWARD` and `NF_INET_POST_ROUTING`, and where among the others there: as `filter` and `srcnat` are.
const FORWARD: (u32, i32) = (2, 0);
const POST_ROUTING: (u32, i32) = (4, 100);
/// Where the addresses lie in an IPv4 header.
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
/// Connections that are under way, and what belongs to them: bits 1 and 2 of `ct state`.
const KNOWN: u32 = 2 | 4;
/// A device's name, as rules compare it.
const NAME_LEN: usize = 16;
/// Bytes of an answer from the kernel: header and error, first of all.
const ANSWER_MAX: usize = 8192;
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const PATIENCE_SECONDS: i64 = 5;

/// The rules of one device; they are gone when this is.
#[derive(Debug)]
pub(super) struct Rules(#[allow(dead_code, reason = "the table lives as long as this socket")] OwnedFd);

/// What is to be so for a rule to apply.
#[derive(Clone, Copy)]
enum Match<'a> {
    From(&'a str),
    NotFrom(&'a str),
    To(&'a str),
    NotTo(&'a str),
    Source(Ipv4Addr),
    NotSource(Ipv4Addr),
    Within(Ipv4Net),
    Unknown,
}

enum Verdict {
    Accept,
    Drop,
    Masquerade,
}

impl Rules {
    pub(super) fn new(device: &str, own: Ipv4Addr, outside: &str, reach: &Reach) -> io::Result<Rules> {
        use Match::{From, NotFrom, NotSource, NotTo, Source, To, Unknown, Within};
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE_SECONDS))?;
        let table = format!("monohull-{device}");
        let mut batch = Batch { chained: Chained::new(1), table: table.as_bytes() };
        batch.begin();
        batch.table();
        batch.chain(b"forward", b"filter", FORWARD);
        batch.chain(b"out", b"nat", POST_ROUTING);
        let mut forward = |matches: &[Match<'_>], verdict| batch.rule(b"forward", matches, verdict);
        forward(&[From(device), NotSource(own)], Verdict::Drop);
        forward(&[From(device), NotTo(outside)], Verdict::Drop);
        match reach {
            Reach::AllBut(ranges) => {
                ranges.iter().for_each(|range| forward(&[From(device), Within(*range)], Verdict::Drop));
            }
            Reach::Only(ranges) => {
                ranges.iter().for_each(|range| forward(&[From(device), Within(*range)], Verdict::Accept));
                forward(&[From(device)], Verdict::Drop);
            }
        }
        forward(&[To(device), NotFrom(outside)], Verdict::Drop);
        forward(&[To(device), Unknown], Verdict::Drop);
        batch.rule(b"out", &[Source(own), To(outside)], Verdict::Masquerade);
        batch.end(&socket)?;
        Ok(Rules(socket))
    }
}

/// Changes that are made together or not at all.
struct Batch<'t> {
    chained: Chained<'static>,
    table: &'t [u8],
}

impl Batch<'_> {
    fn begin(&mut self) {
        let header = Nfgenmsg { _res_id_be: SUBSYSTEM.to_be(), ..Nfgenmsg::new() };
        self.chained.request().op_batch_begin_do(&header);
    }

    fn table(&mut self) {
        let mut made = self.chained.request().set_create().set_excl().op_newtable_do(&ipv4());
        made.encode().push_name_bytes(self.table).push_flags(TableFlags::Owner as u32);
    }

    fn chain(&mut self, name: &[u8], kind: &[u8], (hook, priority): (u32, i32)) {
        let mut made = self.chained.request().set_create().op_newchain_do(&ipv4());
        let chain = made.encode().push_table_bytes(self.table).push_name_bytes(name);
        chain.nested_hook().push_num(hook).push_priority(priority).end_nested().push_type_bytes(kind);
    }

    fn rule(&mut self, chain: &[u8], matches: &[Match<'_>], verdict: Verdict) {
        let mut made = self.chained.request().set_create().set_append().op_newrule_do(&ipv4());
        let rule = made.encode().push_table_bytes(self.table).push_chain_bytes(chain);
        let mut list = rule.nested_expressions();
        for each in matches {
            list = each.push(list);
        }
        let list = match verdict {
            Verdict::Masquerade => list.nested_elem().push_name(c"masq").end_nested(),
            Verdict::Accept => immediate(list, VerdictCode::Accept),
            Verdict::Drop => immediate(list, VerdictCode::Drop),
        };
        list.end_nested();
    }

    /// Has the changes made.
    fn end(mut self, socket: &OwnedFd) -> io::Result<()> {
        let header = Nfgenmsg { _res_id_be: SUBSYSTEM.to_be(), ..Nfgenmsg::new() };
        self.chained.request().op_batch_end_do(&header);
        let batch = self.chained.finalize();
        send(socket.as_raw_fd(), batch.payload(), MsgFlags::empty())?;
        // The last that is certainly answered for: not every kernel answers for the end itself.
        let last = batch.chain_len() - 2;
        let mut room = [0; ANSWER_MAX];
        loop {
            let len = recv(socket.as_raw_fd(), &mut room, MsgFlags::empty())?;
            let mut rest = &room[..len];
            while let Some((kind, number, error, after)) = answer(rest) {
                match error {
                    _ if kind != NLMSG_ERROR => {}
                    0 if batch.get_index(number) == Some(last) => return Ok(()),
                    0 => {}
                    error => {
                        let error = io::Error::from_raw_os_error(-error);
                        let what = batch.get_index(number).map_or("", |index| batch.name(index));
                        return Err(io::Error::new(error.kind(), format!("{what}: {error}")));
                    }
                }
                rest = after;
            }
        }
    }
}

type List<'r> = PushExprListAttrs<PushRuleAttrs<&'r mut Vec<u8>>>;

impl Match<'_> {
    fn push<'r>(self, list: List<'r>) -> List<'r> {
        match self {
            Match::From(device) => name(list, MetaKeys::Iifname, CmpOps::Eq, device),
            Match::NotFrom(device) => name(list, MetaKeys::Iifname, CmpOps::Neq, device),
            Match::To(device) => name(list, MetaKeys::Oifname, CmpOps::Eq, device),
            Match::NotTo(device) => name(list, MetaKeys::Oifname, CmpOps::Neq, device),
            Match::Source(address) => compare(load(list, SOURCE), CmpOps::Eq, &address.octets()),
            Match::NotSource(address) => compare(load(list, SOURCE), CmpOps::Neq, &address.octets()),
            Match::Within(range) => {
                let list = mask(load(list, DESTINATION), range.netmask().octets());
                compare(list, CmpOps::Eq, &range.network().octets())
            }
            Match::Unknown => {
                let state = list.nested_elem().nested_data_ct();
                let list = state.push_dreg(REGISTER).push_key(CtKeys::State as u32).end_nested().end_nested();
                compare(mask(list, KNOWN.to_ne_bytes()), CmpOps::Eq, &[0; 4])
            }
        }
    }
}

const REGISTER: u32 = Registers::Reg1 as u32;

fn name<'r>(list: List<'r>, which: MetaKeys, how: CmpOps, device: &str) -> List<'r> {
    let mut padded = [0; NAME_LEN];
    padded.iter_mut().zip(device.bytes()).for_each(|(slot, byte)| *slot = byte);
    let meta = list.nested_elem().nested_data_meta();
    let list = meta.push_dreg(REGISTER).push_key(which as u32).end_nested().end_nested();
    compare(list, how, &padded)
}

fn load(list: List<'_>, offset: u32) -> List<'_> {
    let payload = list.nested_elem().nested_data_payload().push_dreg(REGISTER);
    let payload = payload.push_base(PayloadBase::NetworkHeader as u32).push_offset(offset).push_len(4);
    payload.end_nested().end_nested()
}

fn mask(list: List<'_>, bits: [u8; 4]) -> List<'_> {
    let bitwise = list.nested_elem().nested_data_bitwise().push_sreg(REGISTER).push_dreg(REGISTER).push_len(4);
    let bitwise = bitwise.nested_mask().push_value(&bits).end_nested();
    bitwise.nested_xor().push_value(&[0; 4]).end_nested().end_nested().end_nested()
}

fn compare<'r>(list: List<'r>, how: CmpOps, value: &[u8]) -> List<'r> {
    let cmp = list.nested_elem().nested_data_cmp().push_sreg(REGISTER).push_op(how as u32);
    cmp.nested_data().push_value(value).end_nested().end_nested().end_nested()
}

fn immediate(list: List<'_>, code: VerdictCode) -> List<'_> {
    let verdict = list.nested_elem().nested_data_immediate().push_dreg(Registers::RegVerdict as u32);
    verdict.nested_data().nested_verdict().push_code(code as u32).end_nested().end_nested().end_nested().end_nested()
}

fn ipv4() -> Nfgenmsg {
    Nfgenmsg { nfgen_family: IPV4, ..Nfgenmsg::new() }
}

/// The first of several messages: its kind, number and error, and those behind it.
fn answer(bytes: &[u8]) -> Option<(u16, u32, i32, &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let len = word(0)? as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let error = word(HEADER)? as i32;
    (len > HEADER).then_some((kind, word(8)?, error, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}
