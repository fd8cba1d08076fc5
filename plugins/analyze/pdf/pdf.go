// Package pdf turns pages of PDF documents into images, with PDFium inside a
// WebAssembly machine that has no files and no network and lives for one document.
package pdf

import (
	"context"
	"errors"
	"fmt"
	"image"
	"strings"
	"sync"
	"time"

	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bulkhead-dev/bulkhead/plugins/analyze/picture"
)

const (
	memory = 256 << 20        // bytes of the machine
	limit  = 60 * time.Second // for one document
)

// Renderer renders one document at a time.
type Renderer struct {
	turn  chan struct{}
	cache func() wazero.CompilationCache // the machine's code is made once
}

// New makes a renderer.
func New() *Renderer {
	return &Renderer{turn: make(chan struct{}, 1), cache: sync.OnceValue(wazero.NewCompilationCache)}
}

// Errors of documents.
var (
	ErrPassword = errors.New("it is protected by a password")
	ErrFormat   = errors.New("it is no PDF that can be read")
	ErrPages    = errors.New("no such pages")
)

// Pages gives the pages first to last of a document as images that fit a model, and
// how many pages it has. Pages count from 1; last 0 = as many as most from first on.
func (r *Renderer) Pages(ctx context.Context, raw []byte, first, last, most int) (images []picture.Fitted, total int, err error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its reader broke: %s", firstLine(fmt.Sprint(v)))
		}
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("it could not be rendered within %s", limit)
		}
	}()
	return r.render(ctx, raw, first, last, most)
}

func (r *Renderer) render(ctx context.Context, raw []byte, first, last, most int) (images []picture.Fitted, total int, err error) {
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MaxIdle: 1, MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), // nothing
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(r.cache()).WithCloseOnContextDone(true).
			WithMemoryLimitPages(memory >> 16).WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling),
	})
	if err != nil {
		return nil, 0, fmt.Errorf("the reader did not start: %w", err)
	}
	defer pool.Close()
	machine, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("the reader did not start: %w", err)
	}
	defer machine.Close()
	opened, err := machine.OpenDocument(&requests.OpenDocument{File: &raw})
	if errors.Is(err, pdferrors.ErrPassword) {
		return nil, 0, ErrPassword
	} else if err != nil {
		// Its reader says why by a number and a word.
		return nil, 0, ErrFormat
	}
	count, err := machine.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return nil, 0, err
	}
	total = count.PageCount
	if last == 0 {
		last = min(first+most-1, total)
	}
	if first < 1 || last < first || last > total || last-first+1 > most {
		return nil, total, ErrPages
	}
	for i := first; i <= last; i++ {
		page := requests.Page{ByIndex: &requests.PageByIndex{Document: opened.Document, Index: i - 1}}
		out, err := machine.RenderPageInPixels(&requests.RenderPageInPixels{Page: page, Width: picture.MaxSide * 3 / 4, Height: picture.MaxSide})
		if err != nil {
			return nil, total, fmt.Errorf("page %d can't be rendered: %s", i, firstLine(err.Error()))
		}
		fitted, err := picture.Of(copied(out.Result.RenderedImage))
		out.Cleanup()
		if err != nil {
			return nil, total, fmt.Errorf("page %d: %w", i, err)
		}
		images = append(images, fitted)
	}
	return images, total, nil
}

// firstLine is what a machine that broke says before it shows where: that is of no use to
// whoever reads it.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 200)]
}

// copied is an image apart from the machine's memory, which goes with it.
func copied(src image.Image) image.Image {
	m, ok := src.(*image.RGBA)
	if !ok {
		return src
	}
	out := *m
	out.Pix = append([]byte(nil), m.Pix...)
	return &out
}
