//! The document as a page for people: one file, no script, nothing that is loaded from elsewhere.

use std::fmt::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{INTRODUCTION, TAGS};

const STYLE: &str = include_str!("page.css");

/// Stands in the page where the address that somebody asked belongs.
const ORIGIN: &str = "http://ORIGIN";

/// In the order in which they are read, and in which their examples work.
const METHODS: [&str; 4] = ["put", "post", "get", "delete"];

/// How many objects may lie in one another.
const DEEPEST: usize = 8;

/// The page, but for the address in its examples.
pub(crate) struct Page {
    html: String,
    /// What it may load, as a browser is told it: its own style and nothing else.
    pub(crate) policy: String,
}

/// A page being written.
struct Writer<'document> {
    document: &'document Value,
    has_keys: bool,
    html: String,
}

impl Page {
    /// The page of a document.
    pub(crate) fn new(document: &Value, has_keys: bool) -> Self {
        let mut writer = Writer { document, has_keys, html: String::new() };
        // Writing to a string never fails.
        let _ = writer.write();
        let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { html: writer.html, policy }
    }

    /// The page for somebody who asked at this host.
    pub(crate) fn at(&self, host: &str) -> String {
        self.html.replace(ORIGIN, &format!("http://{}", escaped(host)))
    }
}

impl<'document> Writer<'document> {
    fn write(&mut self) -> fmt::Result {
        let version = self.document["info"]["version"].as_str().unwrap_or_default();
        write!(
            self.html,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>pullquote over HTTP</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>pullquote over HTTP</h1>\n<p>{}</p>\n\
             <p class=\"quiet\">Version {}. The same for programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>\n",
            prose(INTRODUCTION),
            escaped(version)
        )?;
        self.contents()?;
        for (tag, description) in TAGS {
            write!(self.html, "<h2>{}</h2>\n<p>{}</p>\n", escaped(tag), prose(description))?;
            for (method, path, operation) in operations(self.document, tag) {
                self.operation(method, path, operation)?;
            }
        }
        self.everywhere()?;
        self.failures()?;
        self.html.push_str("</body>\n</html>\n");
        Ok(())
    }

    fn contents(&mut self) -> fmt::Result {
        self.html.push_str("<nav>\n");
        for (tag, _) in TAGS {
            write!(self.html, "<p>{}</p>\n<ul>\n", escaped(tag))?;
            for (method, path, _) in operations(self.document, tag) {
                let anchor = anchor(method, path);
                writeln!(
                    self.html,
                    "<li><a href=\"#{anchor}\"><code>{} {}</code></a></li>",
                    method.to_uppercase(),
                    escaped(path)
                )?;
            }
            self.html.push_str("</ul>\n");
        }
        self.html.push_str("</nav>\n");
        Ok(())
    }

    fn operation(&mut self, method: &str, path: &str, operation: &'document Value) -> fmt::Result {
        let anchor = anchor(method, path);
        let example = self.example(method, path, operation);
        let text = |name: &str| prose(operation[name].as_str().unwrap_or_default());
        write!(
            self.html,
            "<section id=\"{anchor}\">\n<h3><a href=\"#{anchor}\">{} {}</a></h3>\n<p>{}. {}</p>\n<pre><code>{}</code></pre>\n",
            method.to_uppercase(),
            escaped(path),
            text("summary"),
            text("description"),
            escaped(&example)
        )?;
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if !body.is_null() {
            self.html.push_str("<h4>Body</h4>\n");
            self.fields(body)?;
        }
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let Some(description) = response["description"].as_str() else { continue };
            let types = response["content"].as_object().into_iter().flatten();
            let types: Vec<(&String, &Value)> = types.collect();
            let names: Vec<String> = types.iter().map(|(name, _)| format!("<code>{}</code>", escaped(name))).collect();
            writeln!(self.html, "<h4>{status}: {} {}</h4>", prose(description), names.join(", "))?;
            for (_, content) in types {
                self.fields(&content["schema"])?;
            }
        }
        self.html.push_str("<p class=\"quiet\">Failures:");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            if let Some(name) = response["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
                write!(self.html, " <a href=\"#{name}\">{status}</a>")?;
            }
        }
        self.html.push_str("</p>\n</section>\n");
        Ok(())
    }

    /// What to type into a shell.
    fn example(&self, method: &str, path: &str, operation: &Value) -> String {
        let mut path = path.to_owned();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if let (Some(name), Some(example)) = (parameter["name"].as_str(), parameter["example"].as_str()) {
                path = path.replace(&format!("{{{name}}}"), &percent_encoded(example));
            }
        }
        let mut parts = vec![match method {
            "get" | "post" => format!("curl -s {ORIGIN}{path}"),
            _ => format!("curl -s -X {} {ORIGIN}{path}", method.to_uppercase()),
        }];
        let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
        if self.has_keys && !is_open {
            parts.push("-H \"authorization: Bearer $PULLQUOTE_KEY\"".to_owned());
        }
        let body = &operation["requestBody"]["content"]["application/json"]["example"];
        if !body.is_null() {
            parts.push("-H 'content-type: application/json'".to_owned());
            parts.push(format!("-d '{}'", body.to_string().replace('\'', "'\\''")));
        }
        parts.join(" \\\n  ")
    }

    /// The headers of every route.
    fn everywhere(&mut self) -> fmt::Result {
        self.html.push_str("<h2>Headers</h2>\n<section id=\"headers\">\n<h4>Of requests</h4>\n<dl>\n");
        for parameter in self.components("parameters").map(|(_, parameter)| parameter) {
            let name = parameter["name"].as_str().unwrap_or_default();
            self.row(name, &parameter["schema"], parameter["description"].as_str(), "")?;
        }
        self.html.push_str("</dl>\n<h4>Of answers</h4>\n<dl>\n");
        let mut named: Vec<(&String, &Value)> = Vec::new();
        for (_, _, operation) in TAGS.iter().flat_map(|(tag, _)| operations(self.document, tag)) {
            let answers = operation["responses"].as_object().into_iter().flat_map(Map::values);
            let answers = answers.map(|answer| resolved(self.document, answer));
            named.extend(answers.filter_map(|answer| answer["headers"].as_object()).flatten());
        }
        named.sort_by_key(|(name, _)| *name);
        named.dedup_by_key(|(name, _)| *name);
        for (name, header) in named {
            let header = resolved(self.document, header);
            self.row(name, &header["schema"], header["description"].as_str(), "")?;
        }
        self.html.push_str("</dl>\n</section>\n");
        Ok(())
    }

    fn failures(&mut self) -> fmt::Result {
        self.html.push_str("<h2>Failures</h2>\n");
        let mut last = "";
        for (name, response) in self.components("responses") {
            let schema = &response["content"]["application/json"]["schema"];
            let shape = schema["$ref"].as_str().unwrap_or_default();
            if shape != last {
                let close = if last.is_empty() { "" } else { "</dl>\n</section>\n" };
                let title = shape.rsplit('/').next().unwrap_or_default();
                write!(self.html, "{close}<section id=\"{title}\">\n<h3><a href=\"#{title}\">{title}</a></h3>\n")?;
                self.fields(schema)?;
                self.html.push_str("<dl>\n");
                last = shape;
            }
            let status = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
            let description = prose(response["description"].as_str().unwrap_or_default());
            writeln!(self.html, "<dt id=\"{name}\"><code>{status}</code></dt>\n<dd>{description}</dd>")?;
        }
        self.html.push_str("</dl>\n</section>\n");
        Ok(())
    }

    /// The components of a kind, by their names.
    fn components(&self, kind: &str) -> impl Iterator<Item = (&'document String, &'document Value)> + use<'document> {
        let document: &'document Value = self.document;
        document["components"][kind].as_object().into_iter().flatten()
    }

    /// What an object has, and what the objects in it have.
    fn fields(&mut self, schema: &'document Value) -> fmt::Result {
        let mut rows = Vec::new();
        collect(self.document, schema, "", DEEPEST, &mut rows);
        if rows.is_empty() {
            return Ok(());
        }
        self.html.push_str("<dl>\n");
        for Row { name, schema, is_required } in rows {
            self.row(&name, schema, schema["description"].as_str(), if is_required { "required" } else { "" })?;
        }
        self.html.push_str("</dl>\n");
        Ok(())
    }

    fn row(&mut self, name: &str, schema: &Value, description: Option<&str>, note: &str) -> fmt::Result {
        let kind = escaped(&kind(self.document, schema));
        let separator = if note.is_empty() { "" } else { ", " };
        write!(self.html, "<dt><code>{}</code> <span>{kind}{separator}{note}", escaped(name))?;
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            write!(self.html, ", default {}", escaped(&default.to_string()))?;
        }
        let description = description.or_else(|| resolved(self.document, schema)["description"].as_str());
        writeln!(self.html, "</span></dt>\n<dd>{}</dd>", prose(description.unwrap_or_default()))
    }
}

/// A field, by its whole name.
struct Row<'document> {
    name: String,
    schema: &'document Value,
    is_required: bool,
}

/// The operations of a tag: method, path and what the document says.
fn operations<'document>(
    document: &'document Value,
    tag: &str,
) -> Vec<(&'static str, &'document str, &'document Value)> {
    let mut found = Vec::new();
    for (path, of_path) in document["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            let operation = &of_path[method];
            if operation["tags"][0] == tag {
                found.push((method, path.as_str(), operation));
            }
        }
    }
    found
}

/// What a reference points at, or the thing itself.
fn resolved<'document>(document: &'document Value, value: &'document Value) -> &'document Value {
    let target = value["$ref"].as_str().and_then(|path| document.pointer(path.trim_start_matches('#')));
    target.unwrap_or(value)
}

/// Lists the fields of an object: what it must have first.
fn collect<'document>(
    document: &'document Value,
    schema: &'document Value,
    before: &str,
    depth: usize,
    rows: &mut Vec<Row<'document>>,
) {
    let schema = resolved(document, schema);
    if depth == 0 {
        return;
    }
    let required =
        |name: &String| schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name));
    let mut properties: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| !required(name));
    for (name, of_field) in properties {
        let name_here = format!("{before}{name}");
        // What alternatives of an object say once more is said already.
        if rows.iter().any(|row| row.name == name_here) {
            continue;
        }
        rows.push(Row { name: name_here, schema: of_field, is_required: required(name) });
        collect(document, of_field, &format!("{before}{name}."), depth - 1, rows);
    }
    for alternative in ["anyOf", "oneOf"].iter().filter_map(|name| schema[name].as_array()).flatten() {
        collect(document, alternative, before, depth - 1, rows);
    }
    if schema["items"].is_object() {
        let before = before.strip_suffix('.').unwrap_or(before);
        collect(document, &schema["items"], &format!("{before}[]."), depth - 1, rows);
    }
}

/// What may stand in a field, in words.
fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    let each = |list: &Vec<Value>, join: &str, name: &dyn Fn(&Value) -> String| {
        let mut names: Vec<String> = list.iter().map(name).collect();
        names.dedup();
        names.join(join)
    };
    if let Some(alternatives) = schema["anyOf"].as_array().filter(|_| schema["properties"].is_null()) {
        return each(alternatives, ", or ", &|alternative| kind(document, alternative));
    }
    if let Some(values) = schema["enum"].as_array() {
        return each(values, " or ", &Value::to_string);
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    let name = match &schema["type"] {
        Value::Array(types) => each(types, " or ", &|name| name.as_str().unwrap_or_default().to_owned()),
        Value::String(name) if name == "array" && schema["items"].is_object() => {
            let most = schema.get("maxItems").map_or_else(String::new, |most| format!(" (at most {most})"));
            return format!("list{most} of {}", kind(document, &schema["items"]));
        }
        name => name.as_str().unwrap_or("anything").to_owned(),
    };
    let bounds = [("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most")];
    // Bounds that no one meets are those of the machine.
    let is_bound = |bound: &Value| bound.as_u64().is_none_or(|bound| bound < i64::MAX.unsigned_abs());
    let bounds = bounds.iter().filter_map(|(bound, words)| {
        let bound = schema.get(bound).filter(|bound| is_bound(bound))?;
        Some(format!(", {words} {bound}"))
    });
    name + &bounds.collect::<String>()
}

fn anchor(method: &str, path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("-")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in which what stands between backticks is code.
fn prose(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}
