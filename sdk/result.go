package sdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Result is what a call gives back. The zero value is an empty success.
type Result struct {
	Content    []Content
	Structured json.RawMessage // sent on byte for byte
	IsError    bool            // the tool ran and reports a failure in its content
	Error      *Error          // set on results of nested calls; handlers return an error instead
	Chunk      *ChunkHint
	Meta       json.RawMessage // MCP _meta
	Raw        json.RawMessage // prompts, resources, completions: the MCP result

	needs *needsInput
}

// Content is one block of a result. Exactly one of its kinds is set; a block
// with none of the pointers and no Raw is text.
type Content struct {
	Text        string
	File        *FileRef          // media or any other file, by shared path
	TextFile    *FileRef          // a text too large for a message
	Link        *ResourceLink     // a resource the caller may read
	Resource    *EmbeddedResource // a resource included here
	Raw         json.RawMessage   // JSON of a block this package doesn't know
	Annotations json.RawMessage   // MCP annotations of the block
}

// FileRef names a file in the shared folder.
type FileRef struct {
	Path string // /shared/…
	Name string // what a person would call it
	Size int64  // bytes
	MIME string
	Note string
}

// ResourceLink points at a resource without including it.
type ResourceLink struct {
	URI, Name, Title, Description, MIME string
	Size                                int64           // bytes; 0 = unknown
	Raw                                 json.RawMessage // the link as a downstream server sent it
}

// EmbeddedResource is a resource included in a result: text, or a file.
type EmbeddedResource struct {
	URI, MIME, Text string
	Blob            *FileRef
}

// ChunkHint tells the host how to store a long text when it exceeds Threshold.
type ChunkHint struct {
	KeyBase   string        // prefix of the working-memory keys
	Threshold int64         // characters
	ChunkMax  int64         // characters
	TTL       time.Duration // how long the chunks are kept
	Category  string
}

// Text is a text block.
func Text(text string) Content { return Content{Text: text} }

// File is a block that refers to a shared file.
func File(ref FileRef) Content { return Content{File: &ref} }

// TextFile is a block for a text that lies in a shared file.
func TextFile(ref FileRef) Content { return Content{TextFile: &ref} }

// Link is a block that points at a resource.
func Link(link ResourceLink) Content { return Content{Link: &link} }

// Embedded is a block that includes a resource.
func Embedded(r EmbeddedResource) Content { return Content{Resource: &r} }

// RawBlock is a block passed on as it is.
func RawBlock(block json.RawMessage) Content { return Content{Raw: block} }

// Contents is a result of the given blocks.
func Contents(blocks ...Content) Result { return Result{Content: blocks} }

// TextResult is a result of one text.
func TextResult(text string) Result { return Contents(Text(text)) }

// Textf is TextResult with formatting.
func Textf(format string, args ...any) Result { return TextResult(fmt.Sprintf(format, args...)) }

// JSON is a result with v as structured content and, for callers that read text
// only, the same JSON as a text. It fails when v can't be marshalled.
func JSON(v any) (Result, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return Result{}, fmt.Errorf("structured result: %w", err)
	}
	return RawJSON(raw), nil
}

// RawJSON is JSON for bytes that are JSON already; they are sent on unchanged.
func RawJSON(raw json.RawMessage) Result {
	return Result{Content: []Content{Text(string(raw))}, Structured: raw}
}

// Files is a result of files in the shared folder.
func Files(refs ...FileRef) Result {
	var r Result
	for _, ref := range refs {
		r.Content = append(r.Content, File(ref))
	}
	return r
}

// Failure is a result the tool itself reports as failed, with a text for the
// model. Return an *Error instead when one of the codes fits.
func Failure(format string, args ...any) Result {
	r := Textf(format, args...)
	r.IsError = true
	return r
}

// WithChunk adds a hint on how to store the text when it is long.
func (r Result) WithChunk(hint ChunkHint) Result {
	r.Chunk = &hint
	return r
}

// Text joins the text blocks of the result, one blank line between them.
func (r Result) Text() string {
	var texts []string
	for _, c := range r.Content {
		if c.isText() {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// Asks reports whether the result is a question, and its requests.
func (r Result) Asks() ([]InputRequest, bool) {
	if r.needs == nil {
		return nil, false
	}
	return r.needs.requests, true
}

func (c Content) isText() bool {
	return c.File == nil && c.TextFile == nil && c.Link == nil && c.Resource == nil && c.Raw == nil
}

// PromptText is the result of a prompt with one user message.
func PromptText(description, text string) Result {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type message struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	}
	return rawResult(struct {
		Description string    `json:"description,omitempty"`
		Messages    []message `json:"messages"`
	}{description, []message{{"user", content{"text", text}}}})
}

// ResourceText is the result of reading a text resource.
func ResourceText(uri, mime, text string) Result {
	type contents struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType,omitempty"`
		Text string `json:"text"`
	}
	return rawResult(map[string]any{"contents": []contents{{uri, mime, text}}})
}

// ResourceBlob is the result of reading a binary resource. It must fit a message
// when base64-encoded; pass larger ones as files.
func ResourceBlob(uri, mime string, blob []byte) Result {
	type contents struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType,omitempty"`
		Blob []byte `json:"blob"`
	}
	return rawResult(map[string]any{"contents": []contents{{uri, mime, blob}}})
}

// Completion is the result of a completion.
func Completion(values ...string) Result {
	if values == nil {
		values = []string{}
	}
	more := len(values) > 100 // the most MCP admits
	total := len(values)
	if more {
		values = values[:100]
	}
	return rawResult(map[string]any{"completion": map[string]any{"values": values, "total": total, "hasMore": more}})
}

func rawResult(v any) Result {
	raw, err := json.Marshal(v)
	if err != nil { // strings, ints and bytes only: can't fail
		panic(err)
	}
	return Result{Raw: raw}
}
