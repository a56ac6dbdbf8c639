//! Addresses as settings and command lines write them: `host:port`.
//!
//! A host is a name, an address of IPv4, or one of IPv6 in brackets. Only how it is written is looked at here: whether
//! a name is known is asked where that may take its time.

use std::fmt;

/// The host and the port of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// A name or a number; one of IPv6 without its brackets.
    pub host: &'a str,
    /// 0: a free one is taken where it is listened on.
    pub port: u16,
}

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAddress {
    written: String,
    why: &'static str,
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoAddress { written, why } = self;
        write!(
            f,
            "{written:?} is no address ({why}): write host:port, as 10.0.0.1:7400 or [fd00::1]:7400"
        )
    }
}

impl std::error::Error for NoAddress {}

impl<'a> Address<'a> {
    /// One to listen on: port 0 takes a free one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_listen(written: &'a str) -> Result<Address<'a>, NoAddress> {
        let wrong = |why| NoAddress {
            written: written.to_owned(),
            why,
        };
        let (host, port) = written
            .rsplit_once(':')
            .ok_or_else(|| wrong("it has no port"))?;
        let port: u16 = match port.bytes().all(|byte| byte.is_ascii_digit()) {
            true => port.parse().map_err(|_| wrong(PORT))?,
            false => return Err(wrong(PORT)),
        };
        let host = match host.strip_prefix('[') {
            Some(rest) => rest
                .strip_suffix(']')
                .filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
                .ok_or_else(|| wrong("what stands in brackets is no address of IPv6"))?,
            None if host.contains(':') => {
                return Err(wrong("an address of IPv6 stands in brackets"));
            }
            None => host,
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        if host
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "/,@".contains(c))
        {
            return Err(wrong("no host is called so"));
        }
        Ok(Address { host, port })
    }

    /// One at which others are asked: it has a port.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_connect(written: &'a str) -> Result<Address<'a>, NoAddress> {
        let address = Address::to_listen(written)?;
        match address.port {
            0 => Err(NoAddress {
                written: written.to_owned(),
                why: "nobody is at port 0",
            }),
            _ => Ok(address),
        }
    }

    /// All addresses of this machine: to listen on, and nothing that others could be told.
    pub fn is_all(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        ip.is_ok_and(|ip| ip.is_unspecified())
    }
}

const PORT: &str = "its port is no number up to 65535";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_address_is_taken_apart() {
        for (written, host, port) in [
            ("10.0.0.1:7400", "10.0.0.1", 7400),
            ("meta-1.rack_2:1", "meta-1.rack_2", 1),
            ("[fd00::1]:65535", "fd00::1", 65535),
            ("127.0.0.1:0", "127.0.0.1", 0),
        ] {
            assert_eq!(Address::to_listen(written), Ok(Address { host, port }));
        }
        assert!(Address::to_listen("[::]:1").unwrap().is_all());
        assert!(Address::to_listen("0.0.0.0:1").unwrap().is_all());
        assert!(!Address::to_listen("127.0.0.1:1").unwrap().is_all());
    }

    #[test]
    fn what_is_none_is_refused_with_the_reason() {
        for (written, why) in [
            ("", "no port"),
            ("10.0.0.1", "no port"),
            ("10.0.0.1:", "no number"),
            ("10.0.0.1:+5", "no number"),
            ("10.0.0.1:65536", "no number"),
            (":7400", "no host"),
            ("a b:1", "called so"),
            ("http://a:1", "brackets"),
            ("a,b:1", "called so"),
            ("fd00::1:7400", "brackets"),
            ("[fd00:1]:7400", "brackets"),
            ("[]:7400", "brackets"),
        ] {
            let refused = Address::to_listen(written).unwrap_err().to_string();
            assert!(refused.contains(why), "{written}: {refused}");
            assert!(refused.contains("host:port"), "{refused}");
        }
        let refused = Address::to_connect("a:0").unwrap_err().to_string();
        assert!(refused.contains("port 0"), "{refused}");
    }
}
