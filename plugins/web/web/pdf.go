package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	maxPDFPages = 500              // read of one document
	pdfTime     = 30 * time.Second // of one document
	pdfMemory   = 256 << 20        // bytes of the machine that reads it
)

// pdfReader reads PDF documents with PDFium inside a WebAssembly machine that has
// no files and no network: what a broken document breaks is that machine, which
// lives for one document. They are read one after another, for each takes memory.
type pdfReader struct {
	turn  chan struct{}
	cache func() wazero.CompilationCache // the machine's code is made once
}

func newPDFReader() *pdfReader {
	return &pdfReader{turn: make(chan struct{}, 1), cache: sync.OnceValue(wazero.NewCompilationCache)}
}

var errPassword = errors.New("it is protected by a password")

// read gives the text of a document, page by page.
func (p *pdfReader) read(ctx context.Context, body []byte) (document, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return document{}, ctx.Err()
	}
	defer func() { <-p.turn }()
	ctx, cancel := context.WithTimeout(ctx, pdfTime)
	defer cancel()
	type outcome struct {
		doc document
		err error
	}
	// The machine ends with ctx, so this goroutine does.
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if v := recover(); v != nil {
				o.err = fmt.Errorf("its reader broke: %v", v)
			}
			done <- o
		}()
		o.doc, o.err = p.extract(ctx, body)
	}()
	o := <-done
	if o.err != nil && ctx.Err() != nil {
		return document{}, sdk.Errorf(sdk.Timeout, "the PDF could not be read within %s", pdfTime)
	}
	return o.doc, o.err
}

func (p *pdfReader) extract(ctx context.Context, body []byte) (doc document, err error) {
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MaxIdle: 1, MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), // nothing
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(p.cache()).WithCloseOnContextDone(true).
			WithMemoryLimitPages(pdfMemory >> 16).WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling),
	})
	if err != nil {
		return document{}, fmt.Errorf("the reader did not start: %w", err)
	}
	defer pool.Close() // its memory goes with it
	machine, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return document{}, fmt.Errorf("the reader did not start: %w", err)
	}
	defer machine.Close()
	opened, err := machine.OpenDocument(&requests.OpenDocument{File: &body})
	if errors.Is(err, pdferrors.ErrPassword) {
		return document{}, errPassword
	} else if err != nil {
		return document{}, err
	}
	count, err := machine.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return document{}, err
	}
	if meta, err := machine.GetMetaData(&requests.GetMetaData{Document: opened.Document}); err == nil {
		for _, tag := range meta.Tags {
			if tag.Tag == "Title" {
				doc.title = oneLine(clean([]byte(tag.Value)))
			}
		}
	}
	var out strings.Builder
	for i := range min(count.PageCount, maxPDFPages) {
		page, err := machine.GetPageText(&requests.GetPageText{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: opened.Document, Index: i}}})
		if ctx.Err() != nil {
			return document{}, ctx.Err()
		}
		text := "(this page can't be read)"
		if err == nil {
			text = strings.TrimSpace(strings.ReplaceAll(clean([]byte(page.Text)), "\r\n", "\n"))
		}
		if text != "" {
			fmt.Fprintf(&out, "## Page %d\n\n%s\n\n", i+1, text)
		}
		if out.Len() > maxText {
			break
		}
	}
	doc.markdown = strings.TrimSpace(out.String())
	switch {
	case count.PageCount > maxPDFPages:
		doc.note = fmt.Sprintf("the first %d of %d pages are here", maxPDFPages, count.PageCount)
	case doc.markdown == "":
		doc.note = fmt.Sprintf("its %d pages hold no text, only pictures perhaps; nothing was read", count.PageCount)
	}
	return doc, nil
}
