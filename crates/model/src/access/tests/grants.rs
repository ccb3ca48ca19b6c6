use super::*;
use crate::Dialect;

/// The operations that a grant permits on the table `t`, and the codes with which it refuses the others.
fn permitted(grant: &Grant) -> Vec<ServiceOperation> {
    ServiceOperation::ALL
        .iter()
        .copied()
        .filter(|operation| grant.permits(*operation, Some("T")).is_ok())
        .collect()
}

fn table_grant(letters: &str) -> Grant {
    Grant::Table {
        table: "t".to_owned(),
        permissions: Permissions::parse(letters).unwrap(),
        range: GrantedRange::default(),
    }
}

#[test]
fn a_table_sas_permits_its_letters_on_its_table_only() {
    use ServiceOperation::*;
    for (letters, operations) in [
        ("r", vec![QueryEntities]),
        ("a", vec![InsertEntity]),
        ("u", vec![UpdateEntity]),
        ("au", vec![InsertEntity, UpdateEntity, UpsertEntity]),
        ("d", vec![DeleteEntity]),
        (
            "raud",
            vec![QueryEntities, InsertEntity, UpdateEntity, UpsertEntity, DeleteEntity],
        ),
    ] {
        let grant = table_grant(letters);
        assert_eq!(permitted(&grant), operations, "{letters}");
        for operation in ServiceOperation::ALL.iter().copied() {
            for table in [Some("other"), None] {
                assert_eq!(code(grant.permits(operation, table)), Code::AuthorizationFailure);
            }
            let expected = match operation {
                QueryEntities | InsertEntity | UpdateEntity | UpsertEntity | DeleteEntity => {
                    Code::AuthorizationPermissionMismatch
                }
                _ => Code::AuthorizationFailure,
            };
            if !operations.contains(&operation) {
                let refused = code(grant.permits(operation, Some("T")));
                assert_eq!(refused, expected, "{letters} {operation:?}");
            }
        }
    }
}

#[test]
fn an_account_sas_permits_by_resource_type_and_letter() {
    use ServiceOperation::*;
    let grant = |resource_types: &str, letters: &str| Grant::Account {
        permissions: AccountPermissions::parse(letters).unwrap(),
        resource_types: ResourceTypes::parse(resource_types).unwrap(),
    };
    for (types, letters, operations) in [
        ("s", "r", vec![GetServiceProperties, GetServiceStats]),
        ("s", "w", vec![SetServiceProperties]),
        ("c", "l", vec![QueryTables]),
        ("c", "c", vec![CreateTable]),
        ("c", "w", vec![CreateTable]),
        ("c", "d", vec![DeleteTable]),
        ("c", "r", vec![]),
        ("o", "r", vec![QueryEntities]),
        ("o", "a", vec![InsertEntity]),
        ("o", "u", vec![UpdateEntity]),
        ("o", "ua", vec![InsertEntity, UpdateEntity, UpsertEntity]),
        ("o", "d", vec![DeleteEntity]),
        ("o", "wlc", vec![]),
        (
            "sco",
            "rwdlacup",
            ServiceOperation::ALL
                .iter()
                .copied()
                .filter(|operation| !matches!(operation, GetTableAcl | SetTableAcl))
                .collect(),
        ),
    ] {
        assert_eq!(permitted(&grant(types, letters)), operations, "{types} {letters}");
    }
    let refused = |types, letters, operation| code(grant(types, letters).permits(operation, Some("t")));
    assert_eq!(
        refused("s", "r", QueryEntities),
        Code::AuthorizationResourceTypeMismatch
    );
    assert_eq!(refused("o", "r", InsertEntity), Code::AuthorizationPermissionMismatch);
    assert_eq!(refused("sco", "rwdlacup", SetTableAcl), Code::AuthorizationFailure);

    let now = client("2026-01-01T00:00:00Z");
    let blobs = signed("sv=2019-02-02&ss=bqf&srt=sco&sp=rw&se=2030-01-01");
    assert_eq!(code(blobs.grant(None, &now)), Code::AuthorizationServiceMismatch);
    let all = signed("sv=2019-02-02&ss=bqtf&srt=sco&sp=rw&se=2030-01-01");
    assert_eq!(all.grant(None, &now), Ok(grant("sco", "rw")));
    assert_eq!(all.policy(), None);
}

#[test]
fn the_key_permits_everything_and_roles_permit_data() {
    use ServiceOperation::*;
    assert_eq!(permitted(&Grant::Owner), ServiceOperation::ALL);
    assert_eq!(permitted(&Grant::Role(Role::Reader)), [QueryTables, QueryEntities]);
    assert_eq!(
        permitted(&Grant::Role(Role::Contributor)),
        [
            QueryTables,
            CreateTable,
            DeleteTable,
            QueryEntities,
            InsertEntity,
            UpdateEntity,
            UpsertEntity,
            DeleteEntity
        ]
    );
    for role in [Role::Reader, Role::Contributor] {
        assert_eq!(
            code(Grant::Role(role).permits(SetTableAcl, Some("t"))),
            Code::AuthorizationPermissionMismatch
        );
    }
}

fn range(spk: Option<&str>, srk: Option<&str>, epk: Option<&str>, erk: Option<&str>) -> GrantedRange {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    GrantedRange {
        start_partition: owned(spk),
        start_row: owned(srk),
        end_partition: owned(epk),
        end_row: owned(erk),
    }
}

/// Every range over a few keys, against every key: the pair comparison, and the filter that a query is cut down to.
#[test]
fn ranges_and_their_filters_agree_on_every_key() {
    let keys = ["", "a", "b'", "é😀"];
    let bounds: Vec<Option<&str>> = std::iter::once(None).chain(keys.map(Some)).collect();
    for &spk in &bounds {
        for &srk in &bounds {
            for &epk in &bounds {
                for &erk in &bounds {
                    let range = range(spk, srk, epk, erk);
                    if !range.is_complete() {
                        continue;
                    }
                    let filter = range.clip(None, Dialect::Service).unwrap();
                    assert_eq!(filter.is_none(), range.is_everything());
                    let filter =
                        crate::filter::Filter::parse(&filter.unwrap_or_default(), None, Dialect::Service).unwrap();
                    for pk in keys {
                        for rk in keys {
                            let bag = crate::PropertiesBuf::empty();
                            let entity = crate::entity::Entity {
                                partition_key: Some(pk),
                                row_key: Some(rk),
                                timestamp: None,
                                properties: bag.as_properties(),
                            };
                            assert_eq!(filter.matches(&entity), range.contains(pk, rk), "{range:?} {pk} {rk}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_are_pairs_and_inclusive() {
    let both = range(Some("b"), Some("2"), Some("d"), Some("5"));
    for (pk, rk, inside) in [
        ("a", "9", false),
        ("b", "1", false),
        ("b", "2", true),
        ("c", "0", true),
        ("c", "9", true),
        ("d", "5", true),
        ("d", "50", false),
        ("d", "6", false),
        ("e", "", false),
    ] {
        assert_eq!(both.contains(pk, rk), inside, "{pk} {rk}");
    }
    let grant = Grant::Table {
        table: "t".to_owned(),
        permissions: Permissions::parse("r").unwrap(),
        range: both,
    };
    assert!(grant.permits_key("c", "").is_ok());
    assert_eq!(code(grant.permits_key("a", "")), Code::AuthorizationFailure);
}

#[test]
fn a_query_is_cut_down_to_the_range() {
    let range = range(Some("O'B"), None, Some("x"), Some("1"));
    assert_eq!(
        range.clip(Some("A eq 1 or B eq 2"), Dialect::Service).unwrap().unwrap(),
        "(A eq 1 or B eq 2) and PartitionKey ge 'O''B' and \
         (PartitionKey lt 'x' or (PartitionKey eq 'x' and RowKey le '1'))"
    );
    assert_eq!(
        range.clip(Some(" "), Dialect::Service).unwrap(),
        range.clip(None, Dialect::Service).unwrap()
    );
    // Text that would get out of its parentheses is no filter.
    let error = range.clip(Some("A eq 1) or (B eq 2"), Dialect::Service).unwrap_err();
    assert!(error.to_string().ends_with("in 'A eq 1) or (B eq 2'."), "{error}");
    let all = table_grant("r");
    assert_eq!(
        all.clip(Some("not parsed"), Dialect::Service).unwrap().as_deref(),
        Some("not parsed")
    );
    assert_eq!(Grant::Owner.clip(None, Dialect::Service), Ok(None));
}
