//! The parts of an operation that patches, beside its row key, the properties that it sets and its `if_match`.
//!
//! The SQL type of an operation has no places for them. So they are packed into the text of the action: `patch` and a JSON
//! object.

use std::borrow::Cow;

use crate::json::reader::{Kind, Reader};
use crate::json::{properties_to_json, read_properties};
use crate::{Dialect, Error, Filter, Patch, Predicate, Properties, PropertiesBuf};

/// How the text of an operation begins that patches.
const PREFIX: &str = "patch ";

/// The arguments of a patch, as SQL has them.
#[derive(Debug, Clone)]
pub struct PatchArguments<'a> {
    /// The numbers that are added to properties.
    pub increment: Option<Properties<'a>>,
    /// The names of the properties that are removed; `None` in it is NULL.
    pub remove: Option<Vec<Option<&'a str>>>,
    /// The filter that the entity must pass.
    pub condition: Option<&'a str>,
    /// The values of `@name` in the filter.
    pub parameters: Option<Properties<'a>>,
    /// Whether an entity that does not exist is inserted.
    pub create_missing: bool,
}

impl PatchArguments<'_> {
    /// Returns the text of the operation. [`Operation::new`](super::Operation::new) reads and checks it.
    ///
    /// ```
    /// use table_service_model::batch::{Operation, PatchArguments};
    /// use table_service_model::filter::Dialect;
    ///
    /// let arguments = PatchArguments {
    ///     increment: None,
    ///     remove: Some(vec![Some("Reserved")]),
    ///     condition: Some("Stock gt 0"),
    ///     parameters: None,
    ///     create_missing: false,
    /// };
    /// let packed = arguments.pack();
    /// assert_eq!(packed, r#"patch {"remove":["Reserved"],"condition":"Stock gt 0"}"#);
    /// assert!(Operation::new(Some(&packed), Some("1"), None, Some("*"), Dialect::Service).is_ok());
    /// ```
    pub fn pack(&self) -> String {
        let string = |text: &str| serde_json::Value::from(text).to_string();
        let bag = |bag: Properties<'_>| String::from_utf8(properties_to_json(bag)).unwrap_or_default();
        let names = |names: &Vec<Option<&str>>| {
            let names: Vec<_> = names
                .iter()
                .map(|name| name.map_or_else(|| "null".to_owned(), string))
                .collect();
            format!("[{}]", names.join(","))
        };
        let members = [
            self.increment
                .map(|increment| format!("\"increment\":{}", bag(increment))),
            self.remove
                .as_ref()
                .map(|remove| format!("\"remove\":{}", names(remove))),
            self.condition
                .map(|condition| format!("\"condition\":{}", string(condition))),
            self.parameters
                .map(|parameters| format!("\"parameters\":{}", bag(parameters))),
            self.create_missing.then(|| "\"create_missing\":true".to_owned()),
        ];
        let members: Vec<_> = members.into_iter().flatten().collect();
        format!("{PREFIX}{{{}}}", members.join(","))
    }
}

/// The members of a JSON object that are arguments of a patch.
#[derive(Debug, Default)]
pub(super) struct Members<'j> {
    increment: Option<PropertiesBuf>,
    remove: Option<Vec<Option<String>>>,
    condition: Option<Cow<'j, str>>,
    parameters: Option<PropertiesBuf>,
    create_missing: Option<bool>,
}

impl<'j> Members<'j> {
    /// Reads the arguments in the text of an operation. `None` if the text does not say that it patches.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not a JSON object of these members.
    pub(super) fn unpack(operation: &'j str) -> Option<Result<Members<'j>, Error>> {
        if operation == PREFIX.trim_end() {
            return Some(Err(Error::argument(
                "The operation of a patch is patch {...}. Make it with batch_patch()",
            )));
        }
        operation.strip_prefix(PREFIX).map(Members::parse)
    }

    fn parse(json: &'j str) -> Result<Members<'j>, Error> {
        let mut reader = Reader::new(json);
        expect(&mut reader, Kind::Object, "What follows patch", "a JSON object")?;
        let mut members = Members::default();
        let mut next = reader.first_member()?;
        while let Some(name) = next {
            if !members.take(&name, &mut reader)? {
                return Err(Error::argument(format!(
                    "\"{}\" is no argument of a patch; there are increment, remove, condition, parameters, create_missing",
                    Error::quoted(&name)
                )));
            }
            next = reader.next_member()?;
        }
        reader.finish()?;
        Ok(members)
    }

    /// Reads the value of a member, if it is an argument of a patch. Returns whether it is.
    ///
    /// # Errors
    /// `InvalidInput` for a value of another kind, and for a member that is there twice.
    pub(super) fn take(&mut self, name: &str, reader: &mut Reader<'j>) -> Result<bool, Error> {
        const BAG: &str = "an object of properties";
        let is_repeated = match name {
            "increment" => {
                expect(reader, Kind::Object, name, BAG)?;
                self.increment.replace(read_properties(reader)?).is_some()
            }
            "parameters" => {
                expect(reader, Kind::Object, name, BAG)?;
                self.parameters.replace(read_properties(reader)?).is_some()
            }
            "remove" => {
                expect(reader, Kind::Array, name, NAMES)?;
                self.remove.replace(names(reader)?).is_some()
            }
            "condition" => {
                expect(reader, Kind::String, name, "a string")?;
                self.condition.replace(reader.string()?).is_some()
            }
            "create_missing" => {
                let Kind::Boolean(value) = reader.peek()? else {
                    return Err(Error::argument("create_missing is true or false"));
                };
                reader.skip()?;
                self.create_missing.replace(value).is_some()
            }
            _ => return Ok(false),
        };
        if is_repeated {
            return Err(Error::argument(format!("{name} is given twice")));
        }
        Ok(true)
    }

    /// Returns whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.increment.is_none()
            && self.remove.is_none()
            && self.condition.is_none()
            && self.parameters.is_none()
            && self.create_missing.is_none()
    }

    /// Returns the arguments, ready to patch.
    pub(super) fn compile(self, dialect: Dialect) -> Result<CompiledPatch, Error> {
        let parameters = self.parameters.as_ref().map(PropertiesBuf::as_properties);
        let filter = self
            .condition
            .map(|condition| Filter::parse(&condition, parameters, dialect));
        Ok(CompiledPatch {
            increment: self.increment,
            remove: self.remove,
            condition: filter.transpose()?.map(|filter| Predicate::new(&filter)),
            create_missing: self.create_missing.unwrap_or_default(),
        })
    }
}

const NAMES: &str = "an array of names";

/// Returns the strings of the array that comes next, with `None` for null.
fn names(reader: &mut Reader<'_>) -> Result<Vec<Option<String>>, Error> {
    let mut names = Vec::new();
    let mut more = reader.first_element()?;
    while more {
        if reader.peek()? == Kind::Null {
            reader.skip()?;
            names.push(None);
        } else {
            expect(reader, Kind::String, "remove", NAMES)?;
            names.push(Some(reader.string()?.into_owned()));
        }
        more = reader.next_element()?;
    }
    Ok(names)
}

fn expect(reader: &mut Reader<'_>, kind: Kind, what: &str, expected: &str) -> Result<(), Error> {
    if reader.peek()? == kind {
        Ok(())
    } else {
        Err(Error::argument(format!("{what} is {expected}")))
    }
}

/// The parts of a patch beside the properties that it sets.
#[derive(Debug, Clone)]
pub(super) struct CompiledPatch {
    increment: Option<PropertiesBuf>,
    remove: Option<Vec<Option<String>>>,
    condition: Option<Predicate>,
    pub(super) create_missing: bool,
}

impl CompiledPatch {
    /// Returns the patch that also sets properties.
    pub(super) fn patch<'a>(&'a self, set: Option<Properties<'a>>) -> Result<Patch<'a>, Error> {
        let names = |names: &'a Vec<Option<String>>| names.iter().map(Option::as_deref).collect();
        let increment = self.increment.as_ref().map(PropertiesBuf::as_properties);
        let patch = Patch::new(set, increment, self.remove.as_ref().map(names))?;
        Ok(patch.only_if(self.condition.as_ref()))
    }
}
