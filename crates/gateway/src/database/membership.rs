//! Whether a node has the tables of the first node: as a way to the same database, or as a member of its Citus cluster.
//!
//! The settings name the nodes, and a node can leave its cluster. It may then have no tables, or tables of its own, and
//! its answers about them are wrong. So the catalogs of the first node and of the node itself decide, again and again.

use std::time::{Duration, Instant};

use tokio_postgres::Row;

use super::probe::Place;

/// The time for which a node is a member after it was asked. Later it may have left its cluster.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);

/// Whether a node has the tables of the first node.
#[derive(Debug)]
pub enum Membership {
    /// It is the first node, or a single node. The catalogs of the first node name the servers of the cluster.
    First,
    /// It was a member when it was asked.
    Confirmed { identity: Identity, at: Instant },
    /// Why it is not asked.
    Unconfirmed(String),
}

impl Membership {
    /// The membership of a node that was not asked yet.
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

    /// Returns whether a connection leads to the member. A server that has started again has to be checked again.
    ///
    /// # Errors
    /// Why the node may not be asked now.
    pub fn has(&self, place: Option<Place>) -> Result<bool, String> {
        match self.why_not() {
            Some(problem) => Err(problem),
            None => Ok(match self {
                Membership::Confirmed { identity, .. } => place == Some(identity.place),
                Membership::First | Membership::Unconfirmed(_) => true,
            }),
        }
    }
}

/// A server, as its own catalogs describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub place: Place,
    /// Whether it is in recovery.
    pub is_standby: bool,
    /// `None` without Citus.
    pub cluster: Option<Cluster>,
}

impl Identity {
    /// Returns whether a member has only started again since then, if anything has happened to it.
    pub fn is_still(&self, now: &Identity) -> bool {
        let mut then = self.clone();
        then.place.instance.started = now.place.instance.started;
        then == *now
    }
}

/// The catalogs of Citus on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Whether tables of the service are distributed.
    has_tables: bool,
    /// The number of the server.
    group: i32,
    /// The name of the database, the same on all servers of a cluster.
    database: String,
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
    /// Reads the answer to [`CLUSTER`](super::statements::CLUSTER). It has a row for each member, or one row without a
    /// member if there is none.
    pub fn read(rows: &[Row]) -> Result<Cluster, tokio_postgres::Error> {
        let mut cluster = Cluster {
            has_tables: false,
            group: 0,
            database: String::new(),
            members: Vec::new(),
        };
        for row in rows {
            cluster.has_tables = row.try_get(0)?;
            cluster.group = row.try_get(1)?;
            cluster.database = row.try_get(6)?;
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

/// Why a server with the data of the first node is not asked. The two were asked one after the other, so a restart
/// between the answers looks the same, until the next check.
const COPY: &str = "it is a copy of the first node, or has started again just now";

/// Checks that a node has the tables of the first node.
///
/// # Errors
/// Why not.
pub fn check(first: &Identity, node: &Identity) -> Result<(), String> {
    if first.place == node.place {
        return Ok(());
    }
    if node.is_standby {
        return Err("it is a standby (in recovery), not a primary".to_owned());
    }
    let (Some(of_first), Some(of_node)) = (&first.cluster, &node.cluster) else {
        let data = |place: Place| (place.instance.timeline, place.database);
        let problem = match data(first.place) == data(node.place) {
            true => COPY,
            false => "it is another database than the first node's, and they are not on one Citus cluster",
        };
        return Err(problem.to_owned());
    };
    if of_node.database != of_first.database {
        let (own, other) = (&of_node.database, &of_first.database);
        return Err(format!("its database is {own}, and that of the first node is {other}"));
    }
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
            true if own.group == of_first.group => Err(COPY.to_owned()),
            true => Ok(()),
            false => Err("the cluster of the first node does not use it: pg_dist_node".to_owned()),
        },
        _ => Err("the cluster of the first node does not list it: pg_dist_node".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use table_service_model::replication::{Instance, Timeline};

    use super::*;

    fn member(group: i32, name: &str, is_in_use: bool) -> Member {
        Member {
            group,
            name: name.to_owned(),
            port: 5432,
            is_in_use,
        }
    }

    fn place(system: i64) -> Place {
        let timeline = Timeline { system, number: 1 };
        Place {
            instance: Instance { timeline, started: 9 },
            database: 5,
        }
    }

    /// A server of a cluster of three.
    fn server(group: i32) -> Identity {
        Identity {
            place: place(100 + i64::from(group)),
            is_standby: false,
            cluster: Some(Cluster {
                has_tables: true,
                group,
                database: "tables".to_owned(),
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
        Identity {
            place: place(system),
            cluster: None,
            ..server(0)
        }
    }

    /// A server with the data of another one, which runs elsewhere.
    fn copy(mut of: Identity) -> Identity {
        of.place.instance.started += 1;
        of
    }

    fn standby(of: Identity) -> Identity {
        Identity {
            is_standby: true,
            ..copy(of)
        }
    }

    #[test]
    fn a_member_is_one_server_and_only_for_a_while() {
        let (identity, other) = (server(1), server(2));
        let at = |at| Membership::Confirmed {
            identity: identity.clone(),
            at,
        };
        let of = |server: &Identity| Some(server.place);
        let now = Instant::now();
        assert_eq!(at(now).has(of(&identity)), Ok(true));
        for elsewhere in [of(&other), of(&copy(identity.clone())), None] {
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
    fn a_member_may_start_again_while_the_first_node_is_away() {
        assert!(server(1).is_still(&copy(server(1))));
        assert!(!server(1).is_still(&standby(server(1))));
        assert!(!server(1).is_still(&changed(1, |node| node.group = 2)));
        let mut promoted = copy(server(1));
        promoted.place.instance.timeline.number = 2;
        assert!(!server(1).is_still(&promoted));
    }

    #[test]
    fn the_catalogs_say_who_is_a_member() {
        let first = server(0);
        assert_eq!(check(&first, &server(1)), Ok(()));
        assert_eq!(check(&plain(1), &plain(1)), Ok(()), "two ways to one database");
        let in_recovery = Identity {
            is_standby: true,
            ..plain(1)
        };
        assert_eq!(check(&in_recovery, &in_recovery), Ok(()), "two ways to one standby");
        let (mut other, mut later) = (plain(1), plain(1));
        other.place.database = 6;
        later.place.instance.timeline.number = 2;
        let strangers = [
            ("another database", plain(1), plain(2)),
            ("another database", plain(1), other),
            ("another database", plain(1), later),
            ("a copy of the first node", plain(1), copy(plain(1))),
            ("a copy of the first node", first.clone(), copy(first.clone())),
            ("in recovery", plain(1), standby(plain(1))),
            ("in recovery", first.clone(), standby(first.clone())),
            ("in recovery", first.clone(), standby(server(1))),
            (
                "its database is test, and that of the first node is tables",
                first.clone(),
                changed(1, |node| node.database = "test".to_owned()),
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
