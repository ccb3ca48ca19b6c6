//! The XML of the service's documents: elements with text or with elements, and nothing else.
//!
//! Attributes, document types, declared entities and deep nesting are refused while the text is read. So the work is
//! linear in the length of the text.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use table_service_model::Error;

/// The deepest nesting that is read. The documents have less.
const DEPTH: usize = 8;

/// The fate of elements and attributes that no document of the service is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    Refused,
    /// A newer version of the service may send them.
    Ignored,
}

/// An element with its text or its children.
#[derive(Debug, PartialEq, Eq)]
pub struct Element {
    unknown: Unknown,
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// Reads a document with a root of this name.
    ///
    /// # Errors
    /// `InvalidXmlDocument`.
    pub fn read(text: &str, root: &str, unknown: Unknown) -> Result<Element, Error> {
        let mut reader = Reader::from_str(text.trim_start_matches('\u{FEFF}'));
        let mut open: Vec<Element> = Vec::new();
        let mut document = None;
        loop {
            let ended = match reader.read_event().map_err(|error| invalid(error.to_string()))? {
                Event::Start(_) if open.len() == DEPTH => return Err(invalid("The elements are nested too deeply")),
                Event::Start(start) => {
                    open.push(begin(&start, unknown)?);
                    None
                }
                Event::Empty(start) => Some(begin(&start, unknown)?),
                // The reader checks that the names agree.
                Event::End(_) => open.pop(),
                Event::Text(text) => {
                    let text = text.xml10_content().map_err(|error| invalid(error.to_string()))?;
                    add_text(&mut open, &text)?;
                    None
                }
                Event::CData(text) => {
                    let text = text.xml10_content().map_err(|error| invalid(error.to_string()))?;
                    add_text(&mut open, &text)?;
                    None
                }
                Event::GeneralRef(reference) => {
                    add_text(&mut open, &resolve(&reference)?)?;
                    None
                }
                Event::DocType(_) => return Err(invalid("A document type is not accepted")),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => None,
                Event::Eof => break,
            };
            let Some(element) = ended else { continue };
            if !element.children.is_empty() && !element.text.trim().is_empty() {
                return Err(invalid(format!("{} has text between its elements", element.name)));
            }
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None if document.is_none() && element.name == root => document = Some(element),
                None => return Err(invalid(format!("The document is one {root}"))),
            }
        }
        document
            .filter(|_| open.is_empty())
            .ok_or_else(|| invalid(format!("The document is not a whole {root}")))
    }

    /// Refuses unknown elements beside these, and more than one of a name.
    ///
    /// # Errors
    /// `InvalidXmlDocument`.
    pub fn check_children(&self, names: &[&str]) -> Result<(), Error> {
        let mut seen = vec![false; names.len()];
        for child in &self.children {
            let place = names.iter().position(|name| *name == child.name);
            match place.and_then(|place| seen.get_mut(place)) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(invalid(format!("{} occurs twice in {}", child.name, self.name))),
                None if self.unknown == Unknown::Ignored => {}
                None => return Err(invalid(format!("{} has no {}", self.name, child.name))),
            }
        }
        Ok(())
    }

    /// Returns the elements of this name.
    ///
    /// # Errors
    /// `InvalidXmlDocument` if one has another name, and is not ignored.
    pub fn items(&self, name: &str) -> Result<impl Iterator<Item = &Element>, Error> {
        match self.children.iter().find(|child| child.name != name) {
            Some(other) if self.unknown == Unknown::Refused => {
                Err(invalid(format!("{} has no {}", self.name, other.name)))
            }
            _ => Ok(self.children.iter().filter(move |child| child.name == name)),
        }
    }

    /// Returns the first element of a name in it.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the text of an element that must be there.
    ///
    /// # Errors
    /// `InvalidXmlDocument` without it.
    pub fn need(&self, name: &str) -> Result<&str, Error> {
        let child = self.child(name);
        child
            .map(|child| child.text.as_str())
            .ok_or_else(|| invalid(format!("{} needs {name}", self.name)))
    }

    /// Returns the text of an element that may be there, without white space around it; an empty one counts as missing.
    pub fn given(&self, name: &str) -> Option<&str> {
        let text = self.child(name)?.text.trim();
        (!text.is_empty()).then_some(text)
    }

    /// `true` or `false`, in any case: some programs print them so.
    ///
    /// # Errors
    /// `InvalidXmlDocument` for anything else.
    pub fn boolean(&self, name: &str) -> Result<bool, Error> {
        match self.need(name)?.trim() {
            text if text.eq_ignore_ascii_case("true") || text == "1" => Ok(true),
            text if text.eq_ignore_ascii_case("false") || text == "0" => Ok(false),
            _ => Err(invalid(format!("{name} is true or false"))),
        }
    }

    /// Returns a number.
    ///
    /// # Errors
    /// `InvalidXmlDocument` for anything else.
    pub fn number<N: std::str::FromStr>(&self, name: &str) -> Result<N, Error> {
        let text = self.need(name)?.trim();
        text.parse().map_err(|_| invalid(format!("{name} is a number")))
    }
}

fn begin(start: &BytesStart<'_>, unknown: Unknown) -> Result<Element, Error> {
    // XML writers may declare namespaces; looking at single attributes would cost more than it is worth.
    let attributes = start.attributes_raw().trim_ascii();
    if unknown == Unknown::Refused && !attributes.is_empty() && !attributes.starts_with(b"xmlns") {
        return Err(invalid("Elements have no attributes"));
    }
    let name = String::from_utf8(start.name().as_ref().to_vec()).map_err(|error| invalid(error.to_string()))?;
    Ok(Element {
        unknown,
        name,
        text: String::new(),
        children: Vec::new(),
    })
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), Error> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(invalid("There is text outside of the document")),
    }
    Ok(())
}

fn resolve(reference: &BytesRef<'_>) -> Result<Cow<'static, str>, Error> {
    if let Some(character) = reference
        .resolve_char_ref()
        .map_err(|error| invalid(error.to_string()))?
    {
        return Ok(Cow::Owned(character.to_string()));
    }
    let name = reference.decode().map_err(|error| invalid(error.to_string()))?;
    resolve_xml_entity(&name)
        .map(Cow::Borrowed)
        .ok_or_else(|| invalid("An entity is not known"))
}

/// Returns `InvalidXmlDocument`.
pub fn invalid(reason: impl Into<String>) -> Error {
    Error::DocumentInvalid { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_text_or_elements() {
        let document = Element::read(
            "\u{FEFF}<?xml version='1.0'?> <!-- x --><a xmlns='urn:x'> <b>1 &lt;&#65;<![CDATA[<]]></b> <c/></a>\n",
            "a",
            Unknown::Refused,
        );
        let document = document.unwrap();
        assert_eq!(document.need("b").unwrap(), "1 <A<");
        assert_eq!(document.given("c"), None);
        document.check_children(&["b", "c"]).unwrap();
        assert!(document.check_children(&["b"]).is_err());
    }

    #[test]
    fn what_no_document_has_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(9), "</a>".repeat(9));
        for text in [
            "",
            "x",
            "<a>",
            "</a>",
            "<b/>",
            "<a/><a/>",
            "<a/>x",
            "<a><b></a></b>",
            "<a b='c'/>",
            "<a>x<b/></a>",
            "<a>&x;</a>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            deep.as_str(),
        ] {
            assert!(Element::read(text, "a", Unknown::Refused).is_err(), "{text}");
        }
    }
}
