// Package picture makes images fit what models take. What a file says of its size is
// read before it is decoded, so that no small file becomes a large memory.
package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoders by their magic
	"image/jpeg"
	"image/png"
	"runtime/debug"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

// Limits of what is sent to a model.
const (
	MaxSide   = 2048      // pixels; providers scale what is larger themselves, or refuse it
	MaxBytes  = 4 << 20   // of an image as it is sent; base64 makes a third more of it
	MaxPixels = 100 << 20 // of an image that is decoded
	// MaxDecoded is how many bytes a decoded image has: with 16 bits for a colour an
	// image has twice the bytes of the usual.
	MaxDecoded = 512 << 20
	// small is how many bytes a decoded image has that waits for no other.
	small = 16 << 20
)

// turn is had by the one large image that is decoded: what one takes is bounded, and so
// is what all take.
var turn = make(chan struct{}, 1)

// Fitted is an image that fits.
type Fitted struct {
	Data          []byte
	MIME          string
	Width, Height int
	// Scaled says that it is smaller than the one it was made from.
	Scaled     bool
	FromWidth  int
	FromHeight int
}

// decoded is how many bytes an image has in memory.
func decoded(conf image.Config) int64 {
	each := int64(4)
	switch conf.ColorModel {
	case color.NRGBA64Model, color.RGBA64Model:
		each = 8
	case color.Gray16Model, color.Alpha16Model:
		each = 2
	}
	return each * int64(conf.Width) * int64(conf.Height)
}

// Fit gives the image as it is when it fits, and a smaller one when it doesn't. Large ones
// wait for each other.
func Fit(ctx context.Context, raw []byte) (Fitted, error) {
	conf, kind, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return Fitted{}, fmt.Errorf("the image can't be read: %w", err)
	}
	f := Fitted{Data: raw, MIME: "image/" + kind, Width: conf.Width, Height: conf.Height, FromWidth: conf.Width, FromHeight: conf.Height}
	if conf.Width <= 0 || conf.Height <= 0 || int64(conf.Width)*int64(conf.Height) > MaxPixels {
		return f, fmt.Errorf("the image has %d × %d pixels; at most %d million are taken", conf.Width, conf.Height, MaxPixels>>20)
	}
	size := decoded(conf)
	if size > MaxDecoded {
		return f, fmt.Errorf("the image with its %d × %d pixels takes %d MiB of memory; at most %d are given to one", conf.Width, conf.Height, size>>20, MaxDecoded>>20)
	}
	if size > small {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return f, context.Cause(ctx)
		}
		defer func() {
			debug.FreeOSMemory() // before the next one comes
			<-turn
		}()
	}
	src, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return f, fmt.Errorf("the image can't be read: %w", err)
	}
	if max(conf.Width, conf.Height) <= MaxSide && len(raw) <= MaxBytes {
		return f, nil
	}
	return shrink(f, src)
}

// Of encodes an image so that it fits.
func Of(src image.Image) (Fitted, error) {
	b := src.Bounds()
	return shrink(Fitted{FromWidth: b.Dx(), FromHeight: b.Dy()}, src)
}

func shrink(f Fitted, src image.Image) (Fitted, error) {
	for side := MaxSide; side >= 256; side /= 2 {
		small := scaled(src, side)
		f.Width, f.Height = small.Bounds().Dx(), small.Bounds().Dy()
		f.Scaled = f.Width < f.FromWidth
		var out bytes.Buffer
		// Drawings and text are clearer, and often smaller, without loss.
		if err := png.Encode(&out, small); err != nil {
			return f, err
		}
		if f.MIME = "image/png"; out.Len() > MaxBytes {
			out.Reset()
			if err := jpeg.Encode(&out, small, &jpeg.Options{Quality: 85}); err != nil {
				return f, err
			}
			f.MIME = "image/jpeg"
		}
		if f.Data = out.Bytes(); out.Len() <= MaxBytes {
			return f, nil
		}
	}
	return f, fmt.Errorf("the image does not fit into %d bytes", MaxBytes)
}

// scaled is src with no side longer than side, on white where it was transparent.
func scaled(src image.Image, side int) *image.RGBA {
	b := src.Bounds()
	w, h := b.Dx(), b.Dy()
	longest := max(w, h)
	if longest > side {
		w, h = max(1, w*side/longest), max(1, h*side/longest)
	}
	if longest >= 2*side {
		return averaged(src, w, h)
	}
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	draw.ApproxBiLinear.Scale(out, out.Bounds(), src, b, draw.Over, nil)
	return out
}

// averaged makes each pixel the mean of those it stands for, row by row: the library's
// kernels would keep 32 bytes for each pixel of a column of the large image.
func averaged(src image.Image, w, h int) *image.RGBA {
	b := src.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	row := image.NewRGBA(image.Rect(0, 0, b.Dx(), 1))
	sums, counts := make([]uint32, 4*w), make([]uint32, w)
	flush := func(y int) {
		for x := range w {
			n := max(counts[x], 1)
			for c := range 4 {
				out.Pix[y*out.Stride+4*x+c] = byte(sums[4*x+c] / n)
			}
		}
		clear(sums)
		clear(counts)
	}
	at := 0
	for y := range b.Dy() {
		if to := y * h / b.Dy(); to != at {
			flush(at)
			at = to
		}
		draw.Draw(row, row.Bounds(), image.White, image.Point{}, draw.Src)
		draw.Draw(row, row.Bounds(), src, image.Pt(b.Min.X, b.Min.Y+y), draw.Over)
		for x := range b.Dx() {
			to := x * w / b.Dx()
			for c := range 4 {
				sums[4*to+c] += uint32(row.Pix[4*x+c])
			}
			counts[to]++
		}
	}
	flush(at)
	return out
}
