//! Pairs in one text: how language models read a query and a passage that they score. The chat template of the model's
//! files says it, as sentence-transformers reads it, or a table of known models.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, context};
use serde_json::Value;

use super::Model;
use super::files::{optional, text, unsupported};
use super::prompts::model_name;
use crate::error::Result;

/// A text with a query and a passage in it. Pieces are tokenized by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPrompt {
    pub pieces: Vec<Vec<PromptPart>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    Text(String),
    Query,
    Passage,
}

/// A known model: how its name begins, its type, its text, and the tokens of a relevant and of another passage.
pub(super) struct KnownPrompt {
    name: &'static str,
    model_type: &'static str,
    pieces: &'static [&'static str],
    pub(super) answers: [&'static str; 2],
}

/// Stand for the query and the passage.
const QUERY: char = '\u{e000}';
const PASSAGE: char = '\u{e001}';

/// Sources: the card of "Qwen/Qwen3-Reranker-0.6B" (Transformers Usage), whose three parts are tokenized apart; and
/// `mxbai_rerank_v2.py` of github.com/mixedbread-ai/mxbai-rerank, which tokenizes seven.
const KNOWN: [KnownPrompt; 2] = [
    KnownPrompt {
        name: "Qwen3-Reranker",
        model_type: "qwen3",
        pieces: &[
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. \
             Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n",
            "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: \u{e000}\n\
             <Document>: \u{e001}",
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ],
        answers: ["yes", "no"],
    },
    KnownPrompt {
        name: "mxbai-rerank",
        model_type: "qwen2",
        pieces: &[
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
            "query: \u{e000}",
            "\n",
            "document: \u{e001}",
            "\n",
            "You are a search relevance expert who evaluates how well documents match search queries. For each query-document \
             pair, carefully analyze the semantic relationship between them, then provide your binary relevance judgment (0 for \
             not relevant, 1 for relevant).\nRelevance:",
            "<|im_end|>\n<|im_start|>assistant\n",
        ],
        answers: ["1", "0"],
    },
];

/// The known model that has this name, or else this type if `by_type`.
pub(super) fn known(model: &Model, by_type: bool) -> Option<&'static KnownPrompt> {
    let name = model_name(&model.root);
    let of_type = || KNOWN.iter().find(|known| known.model_type == model.model_type).filter(|_| by_type);
    KNOWN.iter().find(|known| name.starts_with(known.name)).or_else(of_type)
}

impl KnownPrompt {
    pub(super) fn prompt(&self) -> PairPrompt {
        PairPrompt { pieces: self.pieces.iter().map(|piece| parts(piece)).collect() }
    }
}

/// The chat template of a model's files.
pub(super) struct ChatTemplate {
    source: String,
    /// The special tokens that it may name: of the beginning, of the end, and of padding.
    tokens: [String; 3],
}

impl ChatTemplate {
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let config = optional(&directory.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
        let of_config = || match config.get("chat_template") {
            Some(Value::Array(named)) => {
                let default = named.iter().find(|template| text(template, "name") == Some("default"))?;
                text(default, "template").map(str::to_owned)
            }
            other => other.and_then(Value::as_str).map(str::to_owned),
        };
        let own = std::fs::read_to_string(directory.join("chat_template.jinja")).ok();
        let token = |key: &str| {
            let token = config.get(key)?;
            token.as_str().or_else(|| text(token, "content")).map(str::to_owned)
        };
        let tokens = ["bos_token", "eos_token", "pad_token"].map(|key| token(key).unwrap_or_default());
        Ok(own.or_else(of_config).map(|source| Self { source, tokens }))
    }

    /// Whether it has a place for a passage, instead of writing any role as the chat of a user.
    pub(super) fn names_roles(&self) -> bool {
        self.source.contains("\"document\"") || self.source.contains("'document'")
    }

    /// The text that it makes of a pair, after a text of the role `system` if that is not empty.
    pub(super) fn prompt(&self, system: &str, path: &Path) -> Result<PairPrompt> {
        // By the same signs as in sentence-transformers.
        let lists = ["content[0]", ".type", "'type'", "\"type\"", "message.content["];
        let is_list = lists.iter().any(|sign| self.source.contains(sign));
        let message = |role: &str, content: &str| {
            if is_list {
                context! { role => role, content => vec![context! { type => "text", text => content }] }
            } else {
                context! { role => role, content => content }
            }
        };
        let mut messages = vec![message("query", &QUERY.to_string()), message("document", &PASSAGE.to_string())];
        if !system.is_empty() {
            messages.insert(0, message("system", system));
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let failed = |why: String| unsupported(path, &format!("the chat template of a pair of texts: {why}"));
        environment.set_syntax(syntax.map_err(|error| failed(error.to_string()))?);
        let [bos_token, eos_token, pad_token] = self.tokens.each_ref().map(String::as_str);
        let rendered = environment.render_str(
            &self.source,
            context! {
                messages => messages,
                add_generation_prompt => false,
                bos_token => bos_token,
                eos_token => eos_token,
                pad_token => pad_token,
            },
        );
        let rendered = rendered.map_err(|error| failed(error.to_string()))?;
        for (role, sign) in [("query", QUERY), ("document", PASSAGE)] {
            if rendered.matches(sign).count() != 1 {
                return Err(failed(format!("the text of the role {role:?} has no place, or several, in it")));
            }
        }
        Ok(PairPrompt { pieces: vec![parts(&rendered)] })
    }
}

fn parts(piece: &str) -> Vec<PromptPart> {
    let mut parts = Vec::new();
    for part in piece.split_inclusive([QUERY, PASSAGE]) {
        let text = part.trim_end_matches([QUERY, PASSAGE]);
        if !text.is_empty() {
            parts.push(PromptPart::Text(text.to_owned()));
        }
        parts.extend(match part.chars().last() {
            Some(QUERY) => Some(PromptPart::Query),
            Some(PASSAGE) => Some(PromptPart::Passage),
            _ => None,
        });
    }
    parts
}
