//! The modules of a crate, as its source files declare them, and every path that each of them names.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItemFn, Item, ItemMod, ItemUse, Lit, Macro, Meta, UseTree, Visibility};

/// How a source file is read; `None` if it does not exist.
pub type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// A target of a package: a library, a program or a test.
pub struct Crate {
    /// The name by which other crates import it.
    pub name: String,
    /// The first one is the root. A module comes after its parent.
    pub modules: Vec<Module>,
}

pub struct Module {
    pub name: String,
    pub file: PathBuf,
    pub parent: Option<usize>,
    pub children: HashMap<String, usize>,
    /// Written between braces in its parent's file.
    pub inline: bool,
    /// Compiled for tests only.
    pub test: bool,
    /// The names of the items that the module defines itself.
    pub items: HashSet<String>,
    /// The names that `use` brings into the module, with the paths that they stand for.
    pub names: HashMap<String, Vec<String>>,
    /// The paths of `use path::*`.
    pub globs: Vec<Vec<String>>,
    pub mentions: Vec<Mention>,
}

/// A path that a module names.
pub struct Mention {
    pub path: Vec<String>,
    pub line: usize,
    pub kind: Kind,
    /// Only code for tests names it.
    pub test: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Use,
    /// `use path::*`; the path ends before the star.
    Glob,
    /// `pub use`, with any visibility: it depends on nothing until somebody uses the name.
    Reexport,
    /// Anywhere else, also in a macro's arguments.
    Code,
}

impl Crate {
    /// Reads the crate with the root file `root`. `test` says that the crate is a test itself.
    pub fn read(name: &str, root: &Path, test: bool, read: Read) -> Result<Self, String> {
        let mut modules = Vec::new();
        let module = Module::new(name, root, None, false, test);
        let directory = root.parent().unwrap_or(Path::new("")).to_owned();
        read_file(&mut modules, module, &directory, read)?;
        Ok(Self {
            name: name.to_owned(),
            modules,
        })
    }

    #[must_use]
    pub fn module(&self, index: usize) -> Option<&Module> {
        self.modules.get(index)
    }
}

impl Module {
    fn new(name: &str, file: &Path, parent: Option<usize>, inline: bool, test: bool) -> Self {
        Self {
            name: name.to_owned(),
            file: file.to_owned(),
            parent,
            children: HashMap::new(),
            inline,
            test,
            items: HashSet::new(),
            names: HashMap::new(),
            globs: Vec::new(),
            mentions: Vec::new(),
        }
    }
}

/// Reads `module`, which is a file, with its children. Their files are in `directory`.
fn read_file(modules: &mut Vec<Module>, module: Module, directory: &Path, read: Read) -> Result<(), String> {
    let file = module.file.clone();
    let source = read(&file).ok_or_else(|| format!("{} cannot be read", file.display()))?;
    let parsed = syn::parse_file(&source)
        .map_err(|error| format!("{}:{}: {error}", file.display(), error.span().start().line))?;
    read_items(modules, module, &parsed.items, directory, read)
}

fn read_items(
    modules: &mut Vec<Module>,
    module: Module,
    items: &[Item],
    directory: &Path,
    read: Read,
) -> Result<(), String> {
    let mut reader = Reader {
        test: module.test,
        module,
        children: Vec::new(),
        in_block: false,
    };
    for item in items {
        reader.visit_item(item);
    }
    let Reader {
        mut module, children, ..
    } = reader;

    let index = modules.len();
    let (parent, file, test, name) = (module.parent, module.file.clone(), module.test, module.name.clone());
    module.children.clear();
    modules.push(module);
    if let Some(parent) = parent.and_then(|parent| modules.get_mut(parent)) {
        parent.children.insert(name, index);
    }

    for child in children {
        let name = child.ident.to_string();
        let test = test || for_tests(&child.attrs);
        let directory = directory.join(&name);
        if let Some((_, items)) = &child.content {
            let module = Module::new(&name, &file, Some(index), true, test);
            read_items(modules, module, items, &directory, read)?;
        } else {
            let file = file_of(&child, &file, &directory, read)?;
            // A file that an attribute names is where a `mod.rs` would be.
            let directory = match path_attribute(&child.attrs) {
                Some(_) => file.parent().unwrap_or(Path::new("")).to_owned(),
                None => directory,
            };
            let module = Module::new(&name, &file, Some(index), false, test);
            read_file(modules, module, &directory, read)?;
        }
    }
    Ok(())
}

/// The file of a module that is declared as `mod name;` in `declared_in`.
fn file_of(child: &ItemMod, declared_in: &Path, directory: &Path, read: Read) -> Result<PathBuf, String> {
    if let Some(path) = path_attribute(&child.attrs) {
        return Ok(declared_in.parent().unwrap_or(Path::new("")).join(path));
    }
    let file = directory.with_extension("rs");
    let in_directory = directory.join("mod.rs");
    if read(&file).is_some() {
        Ok(file)
    } else if read(&in_directory).is_some() {
        Ok(in_directory)
    } else {
        Err(format!(
            "{}:{}: there is neither {} nor {}",
            declared_in.display(),
            child.ident.span().start().line,
            file.display(),
            in_directory.display()
        ))
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

/// Whether an item is compiled for tests only: `#[cfg(test)]`, `#[cfg(any(test, feature = "pg_test"))]`, `#[test]`.
fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            !condition.contains("not") && (condition.contains("test"))
        }
        Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

/// Collects the items of one module and the paths that it names; its child modules are only listed.
struct Reader {
    module: Module,
    children: Vec<ItemMod>,
    test: bool,
    /// Within a function, `use` brings names into that block only.
    in_block: bool,
}

impl Reader {
    fn mention(&mut self, path: Vec<String>, line: usize, kind: Kind) {
        self.module.mentions.push(Mention {
            path,
            line,
            kind,
            test: self.test,
        });
    }

    fn define(&mut self, name: &Ident) {
        if !self.in_block {
            self.module.items.insert(name.to_string());
        }
    }

    fn flatten(&mut self, tree: &UseTree, path: &mut Vec<String>, reexport: bool) {
        let kind = if reexport { Kind::Reexport } else { Kind::Use };
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.flatten(&step.tree, path, reexport);
                path.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.flatten(tree, path, reexport);
                }
            }
            UseTree::Name(leaf) => self.bring(path, &leaf.ident, &leaf.ident, kind),
            UseTree::Rename(leaf) => self.bring(path, &leaf.ident, &leaf.rename, kind),
            UseTree::Glob(star) => {
                let line = star.star_token.spans.first().map_or(0, |span| span.start().line);
                self.module.globs.push(path.clone());
                if !reexport {
                    self.mention(path.clone(), line, Kind::Glob);
                }
            }
        }
    }

    /// `use path::ident as name`.
    fn bring(&mut self, path: &[String], ident: &Ident, name: &Ident, kind: Kind) {
        let mut full = path.to_vec();
        let mut name = name.to_string();
        if ident == "self" {
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        } else {
            full.push(ident.to_string());
        }
        if !self.in_block {
            self.module.names.insert(name, full.clone());
        }
        self.mention(full, ident.span().start().line, kind);
    }

    /// The paths among the arguments of a macro, which need not be Rust.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 && !path.is_empty() {
                        self.mention(std::mem::take(&mut path), line, Kind::Code);
                    }
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    if !path.is_empty() {
                        self.mention(std::mem::take(&mut path), line, Kind::Code);
                    }
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        if !path.is_empty() {
            self.mention(path, line, Kind::Code);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let outside = self.test;
        self.test |= for_tests(attributes(item));
        match item {
            Item::Const(item) => self.define(&item.ident),
            Item::Enum(item) => self.define(&item.ident),
            Item::Fn(item) => self.define(&item.sig.ident),
            Item::Static(item) => self.define(&item.ident),
            Item::Struct(item) => self.define(&item.ident),
            Item::Trait(item) => self.define(&item.ident),
            Item::Type(item) => self.define(&item.ident),
            Item::Union(item) => self.define(&item.ident),
            Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    self.define(name);
                }
            }
            _ => {}
        }
        match item {
            Item::Mod(item) if !self.in_block => self.children.push(item.clone()),
            Item::Use(item) => self.visit_item_use(item),
            _ => {
                let in_block = std::mem::replace(&mut self.in_block, true);
                visit::visit_item(self, item);
                self.in_block = in_block;
            }
        }
        self.test = outside;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let reexport = !matches!(item.vis, Visibility::Inherited);
        self.flatten(&item.tree, &mut Vec::new(), reexport);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        let outside = self.test;
        self.test |= for_tests(&function.attrs);
        visit::visit_impl_item_fn(self, function);
        self.test = outside;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        self.mention(segments.collect(), line, Kind::Code);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    // The names in derives and lints are no dependencies.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
