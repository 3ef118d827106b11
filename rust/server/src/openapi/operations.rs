//! The operations of the document, in the order of its tags.

use serde_json::{Value, json};

use super::schemas::Schemas;
use crate::http::failure::ErrorFormat;
use crate::http::vector_headers::OCTETS;
use crate::routes::cohere::{CohereEmbedRequest, CohereEmbeddings};
use crate::routes::exa::{ContentsRequest, ExaAnswer, SearchRequest};
use crate::routes::health::{Healthy, Live, METRICS};
use crate::routes::highlights::{FORM, Highlights, HighlightsRequest, JSON, LINES};
use crate::routes::llama_cpp::{EmbeddingRequest, embedding_schema};
use crate::routes::openai::{EmbeddingsRequest, Models, ServedModel, embeddings_schema};
use crate::routes::opensearch::{SemanticHighlighterRequest, SemanticHighlights};
use crate::routes::render::{PNG, RenderRequest};
use crate::routes::rerank::{Ranking, RerankRequest, TeiRank};
use crate::routes::static_files::FILES;
use crate::routes::stored_documents::{DocumentRequest, DocumentsRequest, PutDocument, PutDocuments, StoredDocument};
use crate::routes::tei::{EmbedAllRequest, EmbedRequest, Info, SimilarityRequest};
use crate::routes::token_vectors::token_vectors_schema;
use crate::routes::tokens::{
    CohereText, CohereTokenizeRequest, CohereTokens, DecodeRequest, DetokenizeRequest, DetokenizedText, Token,
    TokenizeRequest, TokenizedContent, TokenizedPrompt,
};
use crate::routes::vectors::vector_schema;
use crate::routes::vllm::{ScoreRequest, Scores, Version, pooling_schema, token_pooling_schema};

#[derive(Default)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The operation's name in generated clients.
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: String,
    /// The parameter in its path.
    pub(super) in_path: Option<Value>,
    /// The schema of the body, and an example.
    pub(super) body: Option<(Value, Value)>,
    /// The schema of the form that it reads.
    pub(super) form: Option<Value>,
    pub(super) answers: Vec<SuccessAnswer>,
    pub(super) work: Handling,
    /// Whether its answers have the headers of Text Embeddings Inference.
    pub(super) has_tei_headers: bool,
    /// The format of its failures.
    pub(super) errors: ErrorFormat,
    /// Whether it needs no key.
    pub(super) is_open: bool,
    /// Statuses of failures besides those of `work`.
    pub(super) failures: &'static [u16],
}

/// A successful answer.
pub(super) struct SuccessAnswer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    /// Schemas by content type; none without a body.
    pub(super) content: Vec<(&'static str, Value)>,
}

/// How a route handles a request, which decides how it can fail.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Handling {
    /// Answers without a permit.
    #[default]
    Immediate,
    /// Waits for its turn.
    Compute,
    /// Parses a body and waits for its turn.
    Parse,
}

impl Handling {
    pub(super) const fn failures(self) -> &'static [u16] {
        match self {
            Self::Immediate => &[400, 401, 421, 503],
            Self::Compute => &[400, 401, 408, 413, 415, 421, 429, 500, 503, 504],
            Self::Parse => &[400, 401, 408, 413, 415, 421, 422, 429, 500, 503, 504],
        }
    }
}

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
    ) -> Self {
        Self { method, path, id, tag, summary, ..Self::default() }
    }

    fn with_tei_headers(self) -> Self {
        Self { has_tei_headers: true, ..self }
    }

    fn described(mut self, description: &str) -> Self {
        description.clone_into(&mut self.description);
        self
    }

    fn reads(mut self, schema: Value, example: Value) -> Self {
        (self.body, self.work) = (Some((schema, example)), Handling::Parse);
        self
    }

    fn reads_form(mut self, request: &Value, files: &Value) -> Self {
        let properties = json!({
            "request": request,
            "file": files,
            "password": {"type": "string", "description": "Of encrypted PDFs."},
        });
        let form = json!({
            "type": "object",
            "required": ["file"],
            "properties": properties,
            "additionalProperties": false,
        });
        (self.form, self.work) = (Some(form), Handling::Parse);
        self
    }

    fn writes(mut self, status: u16, description: &'static str, content: Vec<(&'static str, Value)>) -> Self {
        self.answers.push(SuccessAnswer { status, description, content });
        self
    }

    fn writes_json(self, description: &'static str, schema: Value) -> Self {
        self.writes(200, description, vec![(JSON, schema)])
    }

    fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    fn fails(mut self, failures: &'static [u16]) -> Self {
        self.failures = failures;
        self
    }
}

pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    type Family = fn(&mut Schemas) -> Vec<Operation>;
    let families: [(Family, ErrorFormat); 11] = [
        (highlights, ErrorFormat::Native),
        (documents, ErrorFormat::Native),
        (exa, ErrorFormat::Exa),
        (openai, ErrorFormat::OpenAi),
        (tei, ErrorFormat::Tei),
        (rerank, ErrorFormat::Rerank),
        (cohere, ErrorFormat::Vllm),
        (vllm, ErrorFormat::Vllm),
        (llama_cpp, ErrorFormat::OpenAi),
        (opensearch, ErrorFormat::Native),
        (mcp, ErrorFormat::Mcp),
    ];
    let of_families = families.into_iter().flat_map(|(family, errors)| {
        family(schemas).into_iter().map(move |operation| Operation { errors, ..operation })
    });
    let mut operations: Vec<Operation> = of_families.collect();
    operations.extend(server(schemas));
    operations
}

fn highlights(schemas: &mut Schemas) -> Vec<Operation> {
    let lines = json!({
        "type": "string",
        "description": "One line of JSON for each entry of `results`, and a last line with the other fields.",
    });
    let form = json!({
        "type": "object",
        "properties": {
            "highlights": schemas.answer::<Highlights>(),
            "vectors": {"type": "string"},
            "queries": {"type": "string"},
        },
        "description": "With `return_vectors`: the JSON without vectors, and the vectors as bytes.",
    });
    let example = json!({
        "query": "How is bread made?",
        "documents": [{"id": "bread", "title": "Bread", "text": "The moon is white. Bread is baked from flour."}],
        "highlight_length": 1,
        "top_k": 1,
    });
    let content = vec![(JSON, schemas.answer::<Highlights>()), (LINES, lines), (FORM, form)];
    let file = json!({"type": "string", "contentMediaType": "application/pdf"});
    let files = json!({"type": "array", "minItems": 1, "maxItems": "{max_documents}", "items": {"type": "string", "contentMediaType": OCTETS}});
    let request = json!({"type": "object", "description": "As in JSON, without `documents`."});
    vec![
        Operation::new("post", "/highlights", "highlights", "highlights", "Find the passages that answer a query")
            .described(
                "Every highlight is an exact substring of its page. With `accept: application/x-ndjson` the highlights of each \
                 page are one line. With `return_vectors` and `accept: multipart/form-data` the answer has three parts: \
                 `highlights`, the JSON; `vectors`, the vectors of the highlights as bytes, in the order of the JSON; and \
                 `queries`, the vectors of the queries. The `x-embedding` headers of a part describe its vectors. After \
                 `timeout` seconds the answer is 504. If `priority` is 0, the header `request-priority` sets it. A form has PDFs, \
                 DOCX, EPUBs and texts as files; highlights of PDFs then have `page_number` and `rectangles`.",
            )
            .reads(schemas.request::<HighlightsRequest>(), example)
            .reads_form(&request, &files)
            .writes(200, "Highlights, page by page.", content)
            .fails(&[403, 404, 501]),
        Operation::new("post", "/render", "render", "highlights", "Show a page of a PDF as an image")
            .described(
                "The header `x-page-area` has the left, bottom, right and top of what the image shows, in the points of \
                 `rectangles`, and `x-page-rotation` the degrees by which it is turned clockwise.",
            )
            .reads_form(&schemas.request::<RenderRequest>(), &file)
            .writes(200, "The page.", vec![(PNG, json!({"type": "string", "contentMediaType": PNG}))])
            .fails(&[403, 501]),
    ]
}

fn documents(schemas: &mut Schemas) -> Vec<Operation> {
    let id = json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": "Any name or address, percent-encoded; at most {max_document_id} bytes without control characters.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": "{max_document_id}",
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        },
        "example": "moon",
    });
    let operation = |method, name, summary| Operation {
        in_path: Some(id.clone()),
        work: Handling::Compute,
        failures: &[404, 422],
        ..Operation::new(method, "/documents/{id}", name, "documents", summary)
    };
    let put = vec![(JSON, schemas.answer::<PutDocument>())];
    vec![
        Operation::new("post", "/documents", "putDocuments", "documents", "Store many documents")
            .described(
                "With `--store`, one flush to the disk stores all. If the store is full, documents before the one that is \
                 named are stored, and perhaps smaller ones after it.",
            )
            .reads(
                schemas.request::<DocumentsRequest>(),
                json!({"documents": [{"id": "moon", "title": "The moon", "text": "The moon is white."}]}),
            )
            .writes_json("All are stored.", schemas.answer::<PutDocuments>())
            .fails(&[507]),
        operation("put", "putDocument", "Store a document")
            .described(
                "The server keeps documents until they are deleted, and drops none to make room. With `--store` they are in a \
                 file that survives a crash, otherwise in memory.",
            )
            .reads(
                schemas.request::<DocumentRequest>(),
                json!({"title": "The moon", "text": "The moon is white. It has no air."}),
            )
            .writes(200, "The document replaced another.", put.clone())
            .writes(201, "The document is new.", put)
            .fails(&[507]),
        operation("get", "getDocument", "Return a document")
            .writes_json("The document.", schemas.answer::<StoredDocument>()),
        operation("delete", "deleteDocument", "Delete a document").writes(204, "The document is deleted.", Vec::new()),
    ]
}

fn exa(schemas: &mut Schemas) -> Vec<Operation> {
    let contents = json!({
        "urls": ["https://example.com/bread"],
        "documents": [{"url": "https://example.com/bread", "text": "Bread is baked from flour. The moon is white."}],
        "highlights": {"query": "How is bread made?", "highlightsPerUrl": 1},
    });
    let search = json!({"query": "How is bread made?", "numResults": 3, "contents": {"highlights": true}});
    let answer = schemas.answer::<ExaAnswer>();
    vec![
        Operation::new("post", "/contents", "contents", "exa", "Find highlights of named pages")
            .described(
                "A page is taken from the request itself, else from the stored documents, else fetched if the server may do \
                 that. A page that is not available gets a status of its own. Exa's other options are accepted; those that \
                 would change the answer are listed in `warnings`. If no highlight answers the query, `warnings` says so.",
            )
            .reads(schemas.request::<ContentsRequest>(), contents)
            .writes_json("The pages that are available.", answer.clone()),
        Operation::new("post", "/search", "search", "exa", "Search stored pages, or an upstream server")
            .described(
                "Without an upstream server, all stored documents are ranked by the best passage of each. If more documents \
                 are stored than `documents` may have, those with the query's words are.",
            )
            .reads(schemas.request::<SearchRequest>(), search)
            .writes_json("The pages that were found.", answer)
            .fails(&[502]),
        Operation::new("post", "/findSimilar", "findSimilar", "exa", "Refused: this server has no index of the web")
            .fails(&[501]),
        Operation::new("post", "/answer", "answer", "exa", "Refused: this server does not write answers").fails(&[501]),
    ]
}

const VECTORS: &str = "With `accept: application/octet-stream` the answer is the vectors as bytes, one after the other; the \
    `x-embedding` headers describe them. The server sends the first vectors before it computes the last. If it fails in \
    between, the connection (for HTTP/2: the stream) ends before the body is complete. `content-length` is the body's length, \
    unless it is compressed for a client that prefers `gzip` to `identity`. Failures are always JSON.";

fn bytes() -> (&'static str, Value) {
    (OCTETS, json!({"type": "string", "contentMediaType": OCTETS, "description": "Vectors as bytes."}))
}

fn openai(schemas: &mut Schemas) -> Vec<Operation> {
    let operation = |method, path, id, summary| Operation::new(method, path, id, "openai", summary);
    let vectors = vec![(JSON, schemas.written(embeddings_schema)), bytes()];
    let example = json!({"model": "{model_name}", "input": ["The moon is white.", "Bread is baked from flour."]});
    let model = json!({
        "name": "model",
        "in": "path",
        "required": true,
        "schema": {"type": "string", "minLength": 1},
        "example": "{model_name}",
    });
    let mut embeddings = |path, id, summary| {
        operation("post", path, id, summary)
            .described(&format!(
                "A text that is longer than {{max_tokens}} tokens is refused by `/v1/embeddings`, and cut by `/embeddings`; \
                 `truncate` and `truncate_prompt_tokens` decide otherwise. {VECTORS}"
            ))
            .reads(schemas.request::<EmbeddingsRequest>(), example.clone())
            .writes(200, "A vector for each text, in order.", vectors.clone())
            .fails(&[404])
    };
    vec![
        embeddings("/v1/embeddings", "createEmbeddings", "Embed texts"),
        embeddings("/embeddings", "createTruncatedEmbeddings", "Embed texts, cut at the model's limit"),
        operation("get", "/v1/models", "listModels", "List the model")
            .writes_json("The only model.", schemas.answer::<Models>()),
        operation("get", "/models", "listModelsAtRoot", "List the model")
            .writes_json("The only model.", schemas.answer::<Models>()),
        Operation { in_path: Some(model), ..operation("get", "/v1/models/{model}", "getModel", "Return the model") }
            .writes_json("The model.", schemas.answer::<ServedModel>())
            .fails(&[404, 422]),
    ]
}

fn tei(schemas: &mut Schemas) -> Vec<Operation> {
    let operation = |method, path, id, summary| Operation::new(method, path, id, "tei", summary);
    let vectors = json!({"type": "array", "items": schemas.written(vector_schema)});
    let tokens = json!({"type": "array", "items": {"type": "array", "items": schemas.answer::<Token>()}});
    let texts = json!({"inputs": ["The moon is white.", "Bread is baked from flour."]});
    let compared = json!({"inputs": {"source_sentence": "Bread is baked.", "sentences": ["The moon is white."]}});
    let similarities = json!({"type": "array", "items": {"type": "number"}});
    let embed_or_compare =
        json!({"anyOf": [schemas.request::<EmbedRequest>(), schemas.request::<SimilarityRequest>()]});
    let decoded = json!({"type": "array", "items": {"type": "string"}});
    let content = vec![(JSON, vectors), bytes()];
    let other = |path, id, what| {
        let summary = "Refused with 424: the model gives one vector for each text";
        operation("post", path, id, summary).described(what).fails(&[424])
    };
    vec![
        operation("post", "/", "embedOrCompare", "Embed or compare texts, as huggingface_hub's client requests it")
            .described("As `/embed`, or with a `source_sentence` as `/similarity`.")
            .reads(embed_or_compare, texts.clone())
            .writes(
                200,
                "A vector for each text, or a cosine for each sentence.",
                vec![(JSON, json!({"type": "array"})), bytes()],
            )
            .with_tei_headers(),
        operation("post", "/embed", "embed", "Embed texts")
            .described(VECTORS)
            .reads(schemas.request::<EmbedRequest>(), texts.clone())
            .writes(200, "A vector for each text, in order.", content)
            .with_tei_headers(),
        operation("post", "/embed_all", "embedAll", "Embed the tokens of texts")
            .described(
                "The vectors are those of the model's last layer, before pooling, the modules after it and normalization. \
                 Special tokens have vectors too. An encoder that has one vector for each text answers 424.",
            )
            .reads(schemas.request::<EmbedAllRequest>(), texts)
            .writes_json(
                "For each text, in order, a vector for each token.",
                json!({"type": "array", "items": schemas.written(token_vectors_schema)}),
            )
            .with_tei_headers()
            .fails(&[424]),
        operation("post", "/similarity", "similarity", "Compare sentences with one by their cosines")
            .reads(schemas.request::<SimilarityRequest>(), compared)
            .writes_json("A cosine for each sentence, in order.", similarities)
            .with_tei_headers(),
        operation("post", "/tokenize", "tokenize", "Tokenize texts")
            .reads(schemas.request::<TokenizeRequest>(), json!({"inputs": "The moon is white."}))
            .writes_json(
                "A list of tokens for each text, in order; for a `prompt` or a `content`, its ids.",
                json!({"anyOf": [
                    tokens, schemas.answer::<TokenizedPrompt>(), schemas.answer::<TokenizedContent>(),
                ]}),
            )
            .fails(&[404]),
        operation("post", "/decode", "decode", "Return the texts of token ids")
            .reads(schemas.request::<DecodeRequest>(), json!({"ids": [101, 7852, 102]}))
            .writes_json("A text for each list.", decoded),
        other(
            "/embed_sparse",
            "embedSparse",
            "Text Embeddings Inference returns a weight for each word of a vocabulary.",
        ),
        other("/predict", "predict", "Text Embeddings Inference returns the scores of a classifier."),
        operation("get", "/info", "info", "Describe the model and the limits")
            .writes_json("The model and the limits.", schemas.answer::<Info>()),
    ]
}

fn rerank(schemas: &mut Schemas) -> Vec<Operation> {
    let example = json!({
        "query": "How is bread made?",
        "documents": ["The moon is white.", "Bread is baked from flour."],
        "top_n": 1,
        "return_documents": true,
    });
    let of_texts = json!({"type": "array", "items": schemas.answer::<TeiRank>()});
    let answer = json!({"anyOf": [schemas.answer::<Ranking>(), of_texts]});
    let operation = |(path, id, tag)| {
        Operation::new("post", path, id, tag, "Rank documents by their similarity to a query")
            .described(
                "A score is the cosine of two vectors; a document that is longer than {max_tokens} tokens is read in windows, and \
                 has the score of the best. The answer to `documents` is as from Cohere and Jina, the answer to \
                 `texts` as from Text Embeddings Inference. Fields that are not listed here are ignored.",
            )
            .reads(schemas.request::<RerankRequest>(), example.clone())
            .writes_json("The best first.", answer.clone())
            .with_tei_headers()
            .fails(&[404, 422])
    };
    let paths = [
        ("/rerank", "rerank", "rerank"),
        ("/v1/rerank", "rerankV1", "rerank"),
        ("/v2/rerank", "rerankV2", "rerank"),
        ("/reranking", "reranking", "llamacpp"),
        ("/v1/reranking", "rerankingV1", "llamacpp"),
    ];
    paths.map(operation).into()
}

fn cohere(schemas: &mut Schemas) -> Vec<Operation> {
    let operation = |path, id, summary| Operation::new("post", path, id, "cohere", summary);
    let example = json!({
        "model": "{model_name}",
        "texts": ["The moon is white."],
        "input_type": "search_document",
        "embedding_types": ["float", "ubinary"],
    });
    let mut embed = |path, id| {
        operation(path, id, "Embed texts, as Cohere does")
            .reads(schemas.request::<CohereEmbedRequest>(), example.clone())
            .writes_json("A vector for each text, in order, of each type.", schemas.answer::<CohereEmbeddings>())
            .fails(&[404])
    };
    vec![
        embed("/v1/embed", "cohereEmbedV1"),
        embed("/v2/embed", "cohereEmbedV2"),
        operation("/v1/tokenize", "cohereTokenize", "Tokenize a text, as Cohere does")
            .reads(schemas.request::<CohereTokenizeRequest>(), json!({"text": "The moon is white."}))
            .writes_json("Token ids.", schemas.answer::<CohereTokens>())
            .fails(&[404]),
        operation("/v1/detokenize", "cohereDetokenize", "Return the text of token ids, as Cohere does")
            .reads(schemas.request::<DetokenizeRequest>(), json!({"tokens": [7852]}))
            .writes_json("The text.", schemas.answer::<CohereText>())
            .fails(&[404]),
    ]
}

fn vllm(schemas: &mut Schemas) -> Vec<Operation> {
    let operation = |path, id, summary| Operation::new("post", path, id, "vllm", summary);
    let pair = json!({"queries": "How is bread made?", "documents": ["The moon is white.", "Bread is baked."]});
    let example = json!({"model": "{model_name}", "input": ["The moon is white."]});
    let pooled = json!({"anyOf": [schemas.written(pooling_schema), schemas.written(token_pooling_schema)]});
    let vectors = vec![(JSON, pooled), bytes()];
    let mut score = |path, id| {
        operation(path, id, "Compare texts by their cosines")
            .reads(schemas.request::<ScoreRequest>(), pair.clone())
            .writes_json("A cosine for each pair.", schemas.answer::<Scores>())
            .fails(&[404])
    };
    vec![
        score("/score", "score"),
        score("/v1/score", "scoreV1"),
        operation("/pooling", "pooling", "Embed texts, as vLLM's pooling does")
            .described(
                "As `/v1/embeddings`, for the task `embed`. For the task `token_embed` the data of each text are the vectors of \
                 its tokens, special ones included, before pooling and the modules after it: a list of them, or in base64 the \
                 bytes of one after the other. `use_activation` brings each to length 1. The server does not have vLLM's other \
                 tasks.",
            )
            .reads(schemas.request::<EmbeddingsRequest>(), example.clone())
            .writes(200, "For each text, in order, a vector, or with `token_embed` one for each token.", vectors)
            .fails(&[404]),
        operation("/invocations", "invocations", "Send a request of another route, recognized by its fields")
            .described(
                "With `input` as `/v1/embeddings`, with `inputs` as `/embed`, with `query` as `/rerank`, and with `queries` or \
                 `text_1` as `/score`.",
            )
            .reads(json!({"type": "object"}), example)
            .writes(200, "As from that route.", vec![(JSON, json!({})), bytes()])
            .fails(&[404, 422]),
        operation("/detokenize", "detokenize", "Return the text of token ids, as vLLM and llama.cpp do")
            .reads(schemas.request::<DetokenizeRequest>(), json!({"tokens": [101, 7852, 102]}))
            .writes_json("The text.", schemas.answer::<DetokenizedText>())
            .fails(&[404]),
        Operation::new("get", "/version", "version", "vllm", "Return the version")
            .writes_json("The version of pullquote.", schemas.answer::<Version>()),
    ]
}

fn llama_cpp(schemas: &mut Schemas) -> Vec<Operation> {
    vec![
        Operation::new("post", "/embedding", "embedding", "llamacpp", "Embed texts, as llama.cpp's own route does")
            .described("A text that is longer than {max_tokens} tokens is refused.")
            .reads(schemas.request::<EmbeddingRequest>(), json!({"content": "The moon is white."}))
            .writes_json("For each text, in order, a list with its vector.", schemas.written(embedding_schema))
            .fails(&[404]),
        Operation::new("get", "/v1/health", "healthV1", "llamacpp", "Check that texts are encoded")
            .open()
            .described("As `/health`.")
            .writes_json("They are.", schemas.answer::<Healthy>()),
    ]
}

fn opensearch(schemas: &mut Schemas) -> Vec<Operation> {
    let pair = json!({"question": "How is bread made?", "context": "The moon is white. Bread is baked from flour."});
    let path = "/predictions/semantic_highlighter";
    let summary = "Highlight documents for OpenSearch";
    vec![
        Operation::new("post", path, "semanticHighlighter", "opensearch", summary)
            .described(
                "What a connector of OpenSearch's semantic highlighter sends. One document in `question` and `context` has a \
                 list of highlights, `inputs` a list for each. Highlights are in order and do not overlap; offsets are units \
                 of UTF-16. Without options, a document has at most three highlights.",
            )
            .reads(schemas.request::<SemanticHighlighterRequest>(), pair)
            .writes_json("The highlights.", schemas.answer::<SemanticHighlights>()),
    ]
}

fn mcp(_: &mut Schemas) -> Vec<Operation> {
    let message = |description| json!({"type": "object", "description": description});
    let example = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "highlights",
            "arguments": {"query": "How is bread made?", "texts": ["The moon is white. Bread is baked from flour."]},
        },
    });
    vec![
        Operation::new("post", "/mcp", "mcp", "mcp", "Answer an agent")
            .described(
                "Streamable HTTP without sessions. The tools are `highlights`, and `search` and `fetch` over the stored \
                 documents; `tools/list` describes them. What an agent can correct is a result with `isError`.",
            )
            .reads(message("A JSON-RPC request or notification."), example)
            .writes_json("The JSON-RPC response.", message("A JSON-RPC response."))
            .writes(202, "The notification is accepted.", Vec::new())
            .fails(&[403, 404]),
    ]
}

fn server(schemas: &mut Schemas) -> Vec<Operation> {
    let operation = |path, id, summary| {
        // Text Embeddings Inference has these two paths.
        let errors = if matches!(path, "/" | "/ping") { ErrorFormat::Tei } else { ErrorFormat::Native };
        Operation { errors, is_open: true, ..Operation::new("get", path, id, "server", summary) }
    };
    let text = |content_type| vec![(content_type, json!({"type": "string"}))];
    let file = |file: &'static crate::routes::static_files::File| {
        operation(file.path, file.id, file.summary).writes(200, "For a browser.", text(file.content_type)).writes(
            304,
            "The client has the current version (`if-none-match`).",
            Vec::new(),
        )
    };
    let mut operations = vec![
        operation("/live", "live", "Check that the process answers").writes_json("It does.", schemas.answer::<Live>()),
        operation("/health", "health", "Check that texts are encoded")
            .described(
                "It is healthy if a request encoded a text in the last two seconds; otherwise the server encodes a small text.",
            )
            .writes_json("They are.", schemas.answer::<Healthy>()),
        operation("/ping", "ping", "Check that texts are encoded")
            .described("As `/health`.")
            .writes_json("They are.", schemas.answer::<Healthy>()),
        operation("/metrics", "metrics", "Return metrics")
            .writes(200, "Metrics for Prometheus.", text(METRICS))
            .fails(&[500]),
        operation("/openapi.json", "openapi", "Return this document")
            .writes_json("OpenAPI 3.1, with the limits of this server.", json!({"type": "object"})),
    ];
    operations.extend(FILES.iter().map(file));
    operations
}
