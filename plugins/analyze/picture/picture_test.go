package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func encoded(t *testing.T, w, h int, noise bool) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, w, h))
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range m.Pix {
		m.Pix[i] = byte(i / w)
		if noise {
			m.Pix[i] = byte(rnd.Uint32())
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImagesFit(t *testing.T) {
	small := encoded(t, 640, 480, false)
	if f, err := Fit(t.Context(), small); err != nil || !bytes.Equal(f.Data, small) || f.MIME != "image/png" || f.Scaled {
		t.Errorf("%+v, %v", f.Scaled, err)
	}
	for name, raw := range map[string][]byte{"wide": encoded(t, 5000, 10, false), "noise": encoded(t, 2600, 2600, true)} {
		f, err := Fit(t.Context(), raw)
		if err != nil || len(f.Data) > MaxBytes || max(f.Width, f.Height) > MaxSide || !f.Scaled {
			t.Errorf("%s: %d bytes, %d × %d, %v", name, len(f.Data), f.Width, f.Height, err)
		}
		if conf, _, err := image.DecodeConfig(bytes.NewReader(f.Data)); err != nil || conf.Width != f.Width || conf.Height != f.Height {
			t.Errorf("%s: %+v, %v", name, conf, err)
		}
	}
	for name, raw := range map[string][]byte{"text": []byte("hello"), "cut": small[:40], "nothing": nil} {
		if _, err := Fit(t.Context(), raw); err == nil {
			t.Errorf("%s is an image", name)
		}
	}
}

// An image of 60 megapixels is made smaller without more memory than itself asks for.
func TestALargeImage(t *testing.T) {
	m := image.NewYCbCr(image.Rect(0, 0, 9000, 6700), image.YCbCrSubsampleRatio420)
	for i := range m.Y {
		m.Y[i] = byte(i / 9000)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	m = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := Fit(t.Context(), b.Bytes())
	runtime.ReadMemStats(&after)
	if err != nil || f.Width != 2048 || f.FromWidth != 9000 || len(f.Data) > MaxBytes {
		t.Errorf("%d × %d in %d bytes, %v", f.Width, f.Height, len(f.Data), err)
	}
	t.Logf("60 megapixels, %d bytes: %d × %d, %d bytes, %d MiB allocated", b.Len(), f.Width, f.Height, len(f.Data), (after.TotalAlloc-before.TotalAlloc)>>20)
}

func TestAnImageThatClaimsToBeHuge(t *testing.T) {
	// A PNG's head that says 60,000 × 60,000, and no pixels.
	raw := encoded(t, 10, 10, false)
	head := append([]byte(nil), raw[:33]...)
	copy(head[16:24], []byte{0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60})
	if _, err := Fit(t.Context(), head); err == nil {
		t.Error("it was decoded")
	}
}

// Many large images at a time take little more memory than one.
func TestManyLargeImages(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 5000, 4000))
	for i := range m.Pix {
		m.Pix[i] = byte(i >> 12)
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	m = nil
	most := func(n int) uint64 {
		debug.FreeOSMemory()
		var peak atomic.Uint64
		done := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			for {
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				peak.Store(max(peak.Load(), s.HeapInuse))
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				if f, err := Fit(t.Context(), b.Bytes()); err != nil || !f.Scaled {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(done)
		watch.Wait()
		return peak.Load()
	}
	one, six := most(1), most(6)
	if six > 2*one {
		t.Errorf("six take %d MiB, one %d", six>>20, one>>20)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	turn <- struct{}{}
	cancel(left)
	if _, err := Fit(ctx, b.Bytes()); !errors.Is(err, left) {
		t.Errorf("%v", err)
	}
	<-turn
}

func TestMemoryOfAnImage(t *testing.T) {
	deep, err := png.DecodeConfig(bytes.NewReader(encodedDeep(t)))
	if err != nil {
		t.Fatal(err)
	}
	if deep.Width, deep.Height = 9000, 9000; decoded(deep) != 8*81_000_000 {
		t.Errorf("%d bytes", decoded(deep))
	}
	raw := encodedDeep(t)
	copy(raw[16:24], []byte{0, 0, 0x23, 0x28, 0, 0, 0x23, 0x28}) // 9000 × 9000
	binary.BigEndian.PutUint32(raw[29:33], crc32.ChecksumIEEE(raw[12:29]))
	if _, err := Fit(t.Context(), raw); err == nil || !strings.Contains(err.Error(), "takes 617 MiB of memory") {
		t.Errorf("%v", err)
	}
}

// encodedDeep is a PNG with 16 bits for each colour.
func encodedDeep(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	m := image.NewNRGBA64(image.Rect(0, 0, 10, 10))
	m.Pix[0], m.Pix[6] = 1, 1 // not opaque: colours and how much they cover
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
