package sdk

import (
	"strings"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// utf8 makes a string fit for a protobuf field: one broken byte from a web page
// must not break the stream.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func resultToProto(r Result) *pluginv1.Result {
	p := &pluginv1.Result{
		Structured: r.Structured, IsError: r.IsError, Meta: r.Meta, Raw: r.Raw,
		Content: contentToProto(r.Content),
	}
	if r.Error != nil {
		p.Error, p.IsError = r.Error.proto(), true
	}
	if c := r.Chunk; c != nil {
		p.Chunk = &pluginv1.ChunkHint{
			KeyBase: utf8(c.KeyBase), Threshold: c.Threshold, ChunkMax: c.ChunkMax,
			TtlMs: c.TTL.Milliseconds(), Category: utf8(c.Category),
		}
	}
	if n := r.needs; n != nil {
		p.NeedsInput = &pluginv1.NeedsInput{State: n.state}
		for _, req := range n.requests {
			p.NeedsInput.Requests = append(p.NeedsInput.Requests, requestToProto(req))
		}
	}
	return p
}

// resultFromProto reads the result of a nested call.
func resultFromProto(p *pluginv1.Result) Result {
	r := Result{
		Structured: p.GetStructured(), IsError: p.GetIsError(), Meta: p.GetMeta(), Raw: p.GetRaw(),
		Error: errorFromProto(p.GetError()),
	}
	for _, c := range p.GetContent() {
		r.Content = append(r.Content, contentFromProto(c))
	}
	if c := p.GetChunk(); c != nil {
		r.Chunk = &ChunkHint{
			KeyBase: c.GetKeyBase(), Threshold: c.GetThreshold(), ChunkMax: c.GetChunkMax(),
			TTL: millis(c.GetTtlMs()), Category: c.GetCategory(),
		}
	}
	if n := p.GetNeedsInput(); n != nil {
		r.needs = &needsInput{state: n.GetState()}
		for _, q := range n.GetRequests() {
			r.needs.requests = append(r.needs.requests, InputRequest{
				ID: q.GetId(), Kind: q.GetKind(), Message: q.GetMessage(), Schema: q.GetSchema(),
				Audience: q.GetAudience(), NoFallback: q.GetNoFallback(), Decision: q.GetDecision(),
				TTL: millis(q.GetTtlMs()), URL: q.GetUrl(), Model: q.GetModelRequest(),
			})
		}
	}
	return r
}

func contentToProto(blocks []Content) []*pluginv1.Content {
	var out []*pluginv1.Content
	for _, c := range blocks {
		p := &pluginv1.Content{Annotations: c.Annotations}
		switch {
		case c.File != nil:
			p.Block = &pluginv1.Content_File{File: fileToProto(c.File)}
		case c.TextFile != nil:
			p.Block = &pluginv1.Content_TextFile{TextFile: fileToProto(c.TextFile)}
		case c.Link != nil:
			l := c.Link
			p.Block = &pluginv1.Content_ResourceLink{ResourceLink: &pluginv1.ResourceLink{
				Uri: utf8(l.URI), Name: utf8(l.Name), Title: utf8(l.Title), Description: utf8(l.Description),
				Mime: utf8(l.MIME), Size: l.Size, Raw: l.Raw,
			}}
		case c.Resource != nil:
			r := &pluginv1.EmbeddedResource{Uri: utf8(c.Resource.URI), Mime: utf8(c.Resource.MIME), Text: utf8(c.Resource.Text)}
			if c.Resource.Blob != nil {
				r.Blob = fileToProto(c.Resource.Blob)
			}
			p.Block = &pluginv1.Content_Resource{Resource: r}
		case c.Raw != nil:
			p.Block = &pluginv1.Content_Raw{Raw: c.Raw}
		default:
			p.Block = &pluginv1.Content_Text{Text: utf8(c.Text)}
		}
		out = append(out, p)
	}
	return out
}

func contentFromProto(p *pluginv1.Content) Content {
	c := Content{Annotations: p.GetAnnotations()}
	switch b := p.GetBlock().(type) {
	case *pluginv1.Content_Text:
		c.Text = b.Text
	case *pluginv1.Content_File:
		c.File = fileFromProto(b.File)
	case *pluginv1.Content_TextFile:
		c.TextFile = fileFromProto(b.TextFile)
	case *pluginv1.Content_ResourceLink:
		l := b.ResourceLink
		c.Link = &ResourceLink{
			URI: l.GetUri(), Name: l.GetName(), Title: l.GetTitle(), Description: l.GetDescription(),
			MIME: l.GetMime(), Size: l.GetSize(), Raw: l.GetRaw(),
		}
	case *pluginv1.Content_Resource:
		c.Resource = &EmbeddedResource{URI: b.Resource.GetUri(), MIME: b.Resource.GetMime(), Text: b.Resource.GetText()}
		if blob := b.Resource.GetBlob(); blob != nil {
			c.Resource.Blob = fileFromProto(blob)
		}
	case *pluginv1.Content_Raw:
		c.Raw = b.Raw
	}
	return c
}

func fileToProto(f *FileRef) *pluginv1.FileRef {
	return &pluginv1.FileRef{Path: utf8(f.Path), Name: utf8(f.Name), Size: f.Size, Mime: utf8(f.MIME), Note: utf8(f.Note)}
}

func fileFromProto(p *pluginv1.FileRef) *FileRef {
	return &FileRef{Path: p.GetPath(), Name: p.GetName(), Size: p.GetSize(), MIME: p.GetMime(), Note: p.GetNote()}
}

func requestToProto(r InputRequest) *pluginv1.InputRequest {
	return &pluginv1.InputRequest{
		Id: utf8(r.ID), Kind: utf8(r.Kind), Message: utf8(r.Message), Schema: r.Schema, Audience: utf8(r.Audience),
		NoFallback: r.NoFallback, Decision: r.Decision, TtlMs: r.TTL.Milliseconds(),
		Url: utf8(r.URL), ModelRequest: r.Model,
	}
}

func answerFromProto(p *pluginv1.Answer) Answer {
	return Answer{Action: p.GetAction(), Content: p.GetContent(), AnsweredBy: p.GetAnsweredBy(), Reason: p.GetReason()}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
