package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// chart is a picture that says something in large letters.
func chart(t *testing.T, text string) []byte {
	t.Helper()
	small := image.NewGray(image.Rect(0, 0, 7*len(text)+20, 33))
	draw.Draw(small, small.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: small, Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(10, 21)}
	d.DrawString(text)
	large := image.NewGray(image.Rect(0, 0, 6*small.Bounds().Dx(), 6*small.Bounds().Dy()))
	draw.CatmullRom.Scale(large, large.Bounds(), small, small.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	if err := png.Encode(&b, large); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reader is a server of both wire formats whose model is an OCR program: it really
// reads the image it was sent.
type reader struct {
	t     *testing.T
	ocr   string
	asked atomic.Int64
}

func (s *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var picture []byte
	if r.URL.Path == "/v1/messages" {
		_, rest, _ := strings.Cut(string(raw), `"media_type":"image/png","data":"`)
		data, _, _ := strings.Cut(rest, `"`)
		picture, err = base64.StdEncoding.DecodeString(data)
	} else {
		_, rest, _ := strings.Cut(string(raw), "data:image/png;base64,")
		data, _, _ := strings.Cut(rest, `"`)
		picture, err = base64.StdEncoding.DecodeString(data)
	}
	if err != nil || len(picture) == 0 {
		http.Error(w, `{"error":{"message":"no image in the request"}}`, http.StatusBadRequest)
		return
	}
	cmd := exec.CommandContext(r.Context(), s.ocr, "stdin", "stdout", "--psm", "7")
	cmd.Stdin = bytes.NewReader(picture)
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("%s: %v", s.ocr, err)
	}
	quoted, err := json.Marshal("It says: " + strings.TrimSpace(string(out)))
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.URL.Path == "/v1/messages" {
		fmt.Fprintf(w, "data: {\"type\":\"message_start\",\"message\":{\"model\":\"c\",\"usage\":{\"input_tokens\":1500,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%s}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n", quoted)
		return
	}
	fmt.Fprintf(w, "data: {\"model\":\"g\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1500,\"completion_tokens\":9,\"total_tokens\":1509}}\n\ndata: [DONE]\n\n", quoted)
}

// An agent asks about a chart; the plugin analyze asks llm, that a provider, and the
// answer is what stands in the picture.
func TestAnalyze(t *testing.T) {
	ocr, err := exec.LookPath("tesseract")
	if err != nil {
		t.Skip("skipped: tesseract, which reads the picture behind the model, is not installed")
	}
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			s := &reader{t: t, ocr: ocr}
			srv := httptest.NewServer(s)
			defer srv.Close()
			base := srv.URL
			if provider == "openai" {
				base += "/v1"
			}
			const secret = "sk-never-to-be-seen-987654"
			w := newWorld(t, fmt.Sprintf(`plugin "llm" {
  grants = ["shared"]
  config {
    model "high" {
      provider    = %q
      base_url    = %q
      model       = "m"
      api_key     = %q
      image_input = true
    }
  }
}

plugin "analyze" {
  grants = ["shared", "tool:llm_generate", "tool:llm_models"]
}
`, provider, base, secret), "llm", "analyze")
			w.mkdir("shared/attachments")
			if err := os.WriteFile(filepath.Join(w.dir, "shared/attachments/chart.png"), chart(t, "REVENUE HALVED"), 0o644); err != nil {
				t.Fatal(err)
			}
			w.serve()
			testbin.Await(t, 30*time.Second, "the tool to be offered", func() bool { return strings.Contains(w.ok("tools"), "analyze_file") })
			got := w.ok("call", "analyze_file", `{"path":"attachments/chart.png","prompt":"What does it say?"}`)
			if !strings.Contains(got, "REVENUE HALVED") || !strings.Contains(got, "high did instead") {
				t.Errorf("%q", got)
			}
			asked := s.asked.Load()
			w.fails(1, []string{"not a file"}, "call", "analyze_file", `{"path":"/etc/passwd","prompt":"?"}`)
			if n := s.asked.Load(); n != asked {
				t.Errorf("a rejection asked the model")
			}
			seen := w.ok("status") + w.ok("events") + w.log.String()
			if strings.Contains(seen, secret) {
				t.Error("the key is told")
			}
			// Nor does it lie in the audit trail, which has the calls, or elsewhere on the disk.
			w.stop()
			trail := false
			if err := filepath.WalkDir(filepath.Join(w.dir, "data"), func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				raw, err := os.ReadFile(path)
				trail = trail || bytes.Contains(raw, []byte("llm_generate"))
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("%s holds the key", path)
				}
				return err
			}); err != nil || !trail {
				t.Errorf("%v; the trail has the call: %v", err, trail)
			}
		})
	}
}

// Without a model that sees, the text in a picture is read by a program in the
// plugin's sandbox, and the answer says so.
func TestAnalyzeWithoutAModel(t *testing.T) {
	if _, err := os.Stat("/usr/bin/tesseract"); err != nil {
		t.Skip("skipped: tesseract is not installed")
	}
	w := newWorld(t, "plugin \"analyze\" {\n  grants = [\"shared\"]\n}\n", "analyze")
	w.mkdir("shared/attachments")
	if err := os.WriteFile(filepath.Join(w.dir, "shared/attachments/chart.png"), chart(t, "REVENUE HALVED"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.serve()
	testbin.Await(t, 30*time.Second, "the tool to be offered", func() bool { return strings.Contains(w.ok("tools"), "analyze_file") })
	got := w.ok("call", "analyze_file", `{"path":"attachments/chart.png","prompt":"What does it say?"}`)
	if !strings.Contains(got, "REVENUE HALVED") || !strings.Contains(got, "no answer to the prompt") {
		t.Errorf("%q", got)
	}
}
