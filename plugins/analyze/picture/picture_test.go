package picture

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"testing"
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
	if f, err := Fit(small); err != nil || !bytes.Equal(f.Data, small) || f.MIME != "image/png" || f.Scaled {
		t.Errorf("%+v, %v", f.Scaled, err)
	}
	for name, raw := range map[string][]byte{"wide": encoded(t, 5000, 10, false), "noise": encoded(t, 2600, 2600, true)} {
		f, err := Fit(raw)
		if err != nil || len(f.Data) > MaxBytes || max(f.Width, f.Height) > MaxSide || !f.Scaled {
			t.Errorf("%s: %d bytes, %d × %d, %v", name, len(f.Data), f.Width, f.Height, err)
		}
		if conf, _, err := image.DecodeConfig(bytes.NewReader(f.Data)); err != nil || conf.Width != f.Width || conf.Height != f.Height {
			t.Errorf("%s: %+v, %v", name, conf, err)
		}
	}
	for name, raw := range map[string][]byte{"text": []byte("hello"), "cut": small[:40], "nothing": nil} {
		if _, err := Fit(raw); err == nil {
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
	f, err := Fit(b.Bytes())
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
	if _, err := Fit(head); err == nil {
		t.Error("it was decoded")
	}
}
