//! Whether a node has the tables of the first node: as a way to the same database, or as a member of its Citus cluster.
//!
//! The settings name the nodes, and a node can leave its cluster. It may then have no tables, or tables of its own, and what it
//! says of them is wrong. So the catalogs of the first node and of the node itself decide, again and again.

use std::time::{Duration, Instant};

use table_service_model::replication::Timeline;
use tokio_postgres::Row;

/// The time for which a node is a member after it was asked. Later it may have left its cluster.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);

/// Whether a node has the tables of the first node.
#[derive(Debug)]
pub enum Membership {
    /// It is the first node, whose catalogs say which servers there are. So is a single node.
    First,
    /// It was a member when it was asked.
    Confirmed { identity: Identity, at: Instant },
    /// Why it is not asked.
    Unconfirmed(String),
}

impl Membership {
    /// That of a node which nobody has asked yet.
    pub fn unknown() -> Membership {
        Membership::Unconfirmed("it is not known yet whether it is a member".to_owned())
    }

    /// Returns whether the node may be asked now.
    pub fn is_current(&self) -> bool {
        match self {
            Membership::First => true,
            Membership::Confirmed { at, .. } => at.elapsed() < CONFIRMED_FOR,
            Membership::Unconfirmed(_) => false,
        }
    }

    /// Why the node may not be asked now, if so.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Membership::Unconfirmed(problem) => Some(problem.clone()),
            _ if self.is_current() => None,
            _ => Some(format!(
                "it has not told its identity for {} s",
                CONFIRMED_FOR.as_secs()
            )),
        }
    }

    /// Returns whether the server of a connection, with its timeline and the OID of the database, is the member.
    ///
    /// # Errors
    /// Why the node may not be asked now.
    pub fn has(&self, server: Option<(Timeline, u32)>) -> Result<bool, String> {
        match self.why_not() {
            Some(problem) => Err(problem),
            None => Ok(match self {
                Membership::Confirmed { identity, .. } => server == Some((identity.timeline, identity.database)),
                Membership::First | Membership::Unconfirmed(_) => true,
            }),
        }
    }
}

/// A server, as its own catalogs describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub timeline: Timeline,
    /// The OID of the database.
    pub database: u32,
    /// `None` without Citus.
    pub cluster: Option<Cluster>,
}

/// The catalogs of Citus on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Whether tables of the service are distributed.
    has_tables: bool,
    /// The number of the server.
    group: i32,
    members: Vec<Member>,
}

/// A server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    group: i32,
    name: String,
    port: i32,
    /// Whether it is active, and its catalogs are kept as those of the others.
    is_in_use: bool,
}

impl Cluster {
    /// Reads the answer to [`CLUSTER`](super::statements::CLUSTER), which has a row for each member, and one row without a member if
    /// there is none.
    pub fn read(rows: &[Row]) -> Result<Cluster, tokio_postgres::Error> {
        let mut cluster = Cluster {
            has_tables: false,
            group: 0,
            members: Vec::new(),
        };
        for row in rows {
            cluster.has_tables = row.try_get(0)?;
            cluster.group = row.try_get(1)?;
            if let Some(group) = row.try_get(2)? {
                cluster.members.push(Member {
                    group,
                    name: row.try_get(3)?,
                    port: row.try_get(4)?,
                    is_in_use: row.try_get(5)?,
                });
            }
        }
        Ok(cluster)
    }

    fn own(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.group == self.group)
    }
}

/// Checks that a node has the tables of the first node.
///
/// # Errors
/// Why not.
pub fn check(first: &Identity, node: &Identity) -> Result<(), String> {
    if (first.timeline, first.database) == (node.timeline, node.database) {
        return Ok(());
    }
    let (Some(of_first), Some(of_node)) = (&first.cluster, &node.cluster) else {
        return Err("it is another database than the first node's, and they are not on one Citus cluster".to_owned());
    };
    if !of_first.has_tables {
        return Err("the tables of the first node are not distributed".to_owned());
    }
    if !of_node.has_tables {
        return Err("it has no distributed tables of the service".to_owned());
    }
    let own = of_node
        .own()
        .ok_or("its own catalog does not list it as a server of a cluster")?;
    let named = of_first.members.iter().find(|member| member.group == own.group);
    match named {
        Some(named) if (&named.name, named.port) == (&own.name, own.port) => match named.is_in_use {
            true => Ok(()),
            false => Err("the cluster of the first node does not use it: pg_dist_node".to_owned()),
        },
        _ => Err("the cluster of the first node does not list it: pg_dist_node".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(group: i32, name: &str, is_in_use: bool) -> Member {
        Member {
            group,
            name: name.to_owned(),
            port: 5432,
            is_in_use,
        }
    }

    /// A server of a cluster of three.
    fn server(group: i32) -> Identity {
        Identity {
            timeline: Timeline {
                system: 100 + i64::from(group),
                number: 1,
            },
            database: 5,
            cluster: Some(Cluster {
                has_tables: true,
                group,
                members: vec![member(0, "c", true), member(1, "w1", true), member(2, "w2", true)],
            }),
        }
    }

    fn changed(group: i32, change: impl FnOnce(&mut Cluster)) -> Identity {
        let mut server = server(group);
        if let Some(cluster) = &mut server.cluster {
            change(cluster);
        }
        server
    }

    fn plain(system: i64) -> Identity {
        let timeline = Timeline { system, number: 1 };
        Identity {
            timeline,
            cluster: None,
            ..server(0)
        }
    }

    #[test]
    fn a_member_is_one_server_and_only_for_a_while() {
        let (identity, other) = (server(1), server(2));
        let at = |at| Membership::Confirmed {
            identity: identity.clone(),
            at,
        };
        let of = |server: &Identity| Some((server.timeline, server.database));
        let now = Instant::now();
        assert_eq!(at(now).has(of(&identity)), Ok(true));
        for elsewhere in [of(&other), None] {
            assert_eq!(at(now).has(elsewhere), Ok(false));
            assert_eq!(Membership::First.has(elsewhere), Ok(true));
        }
        let old = at(now.checked_sub(CONFIRMED_FOR).unwrap());
        assert!(!old.is_current());
        let problem = old.has(of(&identity)).unwrap_err();
        assert_eq!(problem, "it has not told its identity for 10 s");
        assert!(Membership::unknown().has(of(&identity)).is_err());
    }

    #[test]
    fn the_catalogs_say_who_is_a_member() {
        let first = server(0);
        assert_eq!(check(&first, &server(1)), Ok(()));
        assert_eq!(check(&plain(1), &plain(1)), Ok(()), "two ways to one database");
        let later = Timeline { system: 1, number: 2 };
        let strangers = [
            ("another database", plain(1), plain(2)),
            (
                "another database",
                plain(1),
                Identity {
                    database: 6,
                    ..plain(1)
                },
            ),
            (
                "another database",
                plain(1),
                Identity {
                    timeline: later,
                    ..plain(1)
                },
            ),
            ("another database", plain(1), server(1)),
            ("another database", first.clone(), plain(1)),
            (
                "of the first node are not",
                changed(0, |first| first.has_tables = false),
                server(1),
            ),
            (
                "no distributed tables",
                first.clone(),
                changed(1, |node| node.has_tables = false),
            ),
            (
                "its own catalog",
                first.clone(),
                changed(1, |node| node.members.clear()),
            ),
            (
                "does not list it",
                changed(0, |first| drop(first.members.pop())),
                server(2),
            ),
            (
                "does not list it",
                first.clone(),
                changed(1, |node| node.members[1].name = "x1".to_owned()),
            ),
            (
                "does not list it",
                first.clone(),
                changed(1, |node| node.members[1].port = 5433),
            ),
            (
                "does not list it",
                first.clone(),
                changed(3, |node| node.members.push(member(3, "w1", true))),
            ),
            (
                "does not use it",
                changed(0, |first| first.members[1].is_in_use = false),
                server(1),
            ),
        ];
        for (why, first, node) in strangers {
            let problem = check(&first, &node).expect_err(why);
            assert!(problem.contains(why), "{problem}");
        }
    }
}
