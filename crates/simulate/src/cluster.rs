//! Described devices, and the links between them as resources that flows share.

use oneflow_base::{Error, Result};

/// What messages between two devices take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds before the first byte arrives.
    pub latency: f64,
    /// Bytes a second of one device, or of all devices of a host together where it is `shared`.
    pub bandwidth: f64,
    pub shared: bool,
}

/// Devices in hosts; rank `r` has device `r` in the order of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub hosts: usize,
    pub devices_per_host: usize,
    /// Operations a second of a device, bytes a second of its memory, and seconds that any instruction takes at least.
    pub flops: f64,
    pub memory_bandwidth: f64,
    pub launch: f64,
    /// Seconds that a program takes between steps.
    pub call: f64,
    /// Bytes of a device.
    pub memory: f64,
    /// Between devices of one host, and of different hosts.
    pub inside: Link,
    pub between: Link,
    /// Cores of a host, which its ranks share; 0 where each device works by itself.
    pub cores: f64,
    /// Bytes a second between a device's memory and the disk; 0 where there is none.
    pub disk: f64,
    /// Between a device's memory and that of its host, in each direction; without bandwidth there is none.
    pub host_link: Link,
}

impl Cluster {
    /// # Errors
    /// ValueError: a number is not a positive one.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("flops", self.flops),
            ("memory_bandwidth", self.memory_bandwidth),
            ("memory", self.memory),
            ("inside.bandwidth", self.inside.bandwidth),
            ("between.bandwidth", self.between.bandwidth),
            ("hosts", self.hosts as f64),
            ("devices_per_host", self.devices_per_host as f64),
        ];
        let zero_too = [
            ("launch", self.launch),
            ("call", self.call),
            ("inside.latency", self.inside.latency),
            ("cores", self.cores),
            ("disk", self.disk),
            ("host.latency", self.host_link.latency),
            ("host.bandwidth", self.host_link.bandwidth),
        ];
        let bad = |what: &str, x: f64| Error::value(format!("cluster: {what} is {x}"));
        if let Some((what, x)) = positive.iter().find(|(_, x)| !x.is_finite() || *x <= 0.0) {
            return Err(bad(what, *x));
        }
        let between = [("between.latency", self.between.latency)];
        match zero_too.iter().chain(&between).find(|(_, x)| !x.is_finite() || *x < 0.0) {
            Some((what, x)) => Err(bad(what, *x)),
            None => Ok(()),
        }
    }

    pub fn n_devices(&self) -> usize {
        self.hosts * self.devices_per_host
    }

    pub(crate) fn host(&self, rank: u32) -> usize {
        rank as usize / self.devices_per_host
    }

    /// Returns true if ranks of different hosts are among them.
    pub fn crosses_hosts(&self, ranks: &[u32]) -> bool {
        ranks.iter().any(|r| self.host(*r) != self.host(ranks[0]))
    }

    /// The link between devices of one host, or of several.
    pub fn link(&self, across: bool) -> Link {
        if across { self.between } else { self.inside }
    }

    /// Every resource: its name and its bytes a second.
    pub(crate) fn resources(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        for (name, link) in [("inside", self.inside), ("between", self.between)] {
            let (of, n) = if link.shared { ("host", self.hosts) } else { ("device", self.n_devices()) };
            for i in 0..n {
                found.extend(["out", "in"].map(|way| (format!("{name} {of} {i} {way}"), link.bandwidth)));
            }
        }
        if self.cores > 0.0 {
            found.extend((0..self.hosts).map(|i| (format!("cores of host {i} all"), self.cores)));
        }
        if self.host_link.bandwidth > 0.0 {
            let (of, n) = if self.host_link.shared { ("host", self.hosts) } else { ("device", self.n_devices()) };
            for i in 0..n {
                let way = |way| (format!("offload {of} {i} {way}"), self.host_link.bandwidth);
                found.extend(["out", "in"].map(way));
            }
        }
        found
    }

    /// The number of the resource through which a rank writes to memory of its host, or reads from there.
    pub(crate) fn to_host(&self, rank: u32, reads: bool) -> u32 {
        let links = |link: Link| 2 * if link.shared { self.hosts } else { self.n_devices() };
        let first = links(self.inside) + links(self.between) + if self.cores > 0.0 { self.hosts } else { 0 };
        let unit = if self.host_link.shared { self.host(rank) } else { rank as usize };
        (first + 2 * unit + reads as usize) as u32
    }

    /// The number of the resource that the work of a rank shares with that of other ranks of its host.
    pub(crate) fn cores_of(&self, rank: u32) -> Option<u32> {
        let links = |link: Link| 2 * if link.shared { self.hosts } else { self.n_devices() };
        let first = links(self.inside) + links(self.between);
        (self.cores > 0.0).then(|| (first + self.host(rank)) as u32)
    }

    /// The number of the resource through which what a rank sends leaves it, or what it receives comes in.
    pub(crate) fn resource(&self, rank: u32, across: bool, incoming: bool) -> u32 {
        let inside = 2 * if self.inside.shared { self.hosts } else { self.n_devices() };
        let link = self.link(across);
        let unit = if link.shared { self.host(rank) } else { rank as usize };
        (across as usize * inside + 2 * unit + incoming as usize) as u32
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two hosts of two devices: one operation, one byte a second, links of one byte a second without latency.
    pub(crate) fn plain() -> Cluster {
        let link = Link { latency: 0.0, bandwidth: 1.0, shared: false };
        Cluster {
            hosts: 2,
            devices_per_host: 2,
            flops: 1.0,
            memory_bandwidth: 1.0,
            launch: 0.0,
            call: 0.0,
            memory: 1e9,
            inside: link,
            between: link,
            cores: 0.0,
            disk: 0.0,
            host_link: Link { bandwidth: 0.0, ..link },
        }
    }

    #[test]
    fn resources_have_numbers_of_their_own() {
        for shared in [false, true] {
            let mut c = plain();
            (c.inside.shared, c.cores) = (shared, 2.0);
            c.host_link = Link { bandwidth: 1.0, shared, ..c.host_link };
            let names = c.resources();
            let mut seen: Vec<u32> = Vec::new();
            for rank in 0..4 {
                seen.extend(c.cores_of(rank));
                for reads in [false, true] {
                    let at = c.to_host(rank, reads);
                    let name = &names[at as usize].0;
                    assert!(name.starts_with("offload") && name.ends_with(if reads { "in" } else { "out" }));
                    seen.push(at);
                }
                for (across, incoming) in [(false, false), (false, true), (true, false), (true, true)] {
                    let at = c.resource(rank, across, incoming);
                    let (way, place) = (if incoming { "in" } else { "out" }, if across { "between" } else { "inside" });
                    assert!(names[at as usize].0.starts_with(place) && names[at as usize].0.ends_with(way));
                    seen.push(at);
                }
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), names.len());
        }
        assert!(Cluster { flops: 0.0, ..plain() }.check().is_err() && plain().check().is_ok());
    }
}
