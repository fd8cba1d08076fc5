package analyze

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

type session struct {
	*sdktest.Session
	t *testing.T

	mu     sync.Mutex
	models string
	asked  []json.RawMessage
	images []image.Image // what the model was shown, decoded
	heard  int
	answer func() (sdk.Result, error)
}

const seeing = `[{"model_tier":"low","model":"blind","image_input":false},{"model_tier":"high","model":"sees","image_input":true}]`

func start(t *testing.T, models, conf string) *session {
	if conf == "{}" {
		conf = `{"ocr":false}`
	}
	s := &session{t: t, models: models}
	s.answer = func() (sdk.Result, error) { return sdk.RawJSON(json.RawMessage(`{"message":"A red square."}`)), nil }
	s.Session = sdktest.Start(t, Plugin(), sdktest.Config(conf), sdktest.Granted("shared", "tool:llm_generate", "tool:llm_models"))
	s.Host.Tool("llm_models", func(json.RawMessage) (sdk.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return sdk.TextResult(s.models), nil
	})
	s.Host.Tool("llm_generate", func(args json.RawMessage) (sdk.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, slices.Clone(args))
		var in struct {
			Messages []struct{ Content json.RawMessage }
		}
		var parts []struct{ Type, Path string }
		if err := json.Unmarshal(args, &in); err != nil || len(in.Messages) != 2 {
			t.Errorf("%s: %v", args, err)
			return sdk.Result{}, err
		}
		if err := json.Unmarshal(in.Messages[1].Content, &parts); err != nil {
			t.Error(err)
		}
		s.images = nil
		for _, p := range parts {
			if p.Type == "audio" {
				s.heard++
			}
			if p.Type != "image" {
				continue
			}
			raw, err := os.ReadFile(filepath.Join(s.SharedDir, strings.TrimPrefix(p.Path, "/shared/")))
			if err != nil {
				t.Error(err)
				continue
			}
			m, _, err := image.Decode(bytes.NewReader(raw))
			if err != nil {
				t.Error(err)
			}
			s.images = append(s.images, m)
		}
		return s.answer()
	})
	s.offered(strings.Contains(models, `_input":true`))
	return s
}

// offered waits until the tool is offered, or is not.
func (s *session) offered(want bool) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for slices.Contains(s.ToolNames(), "analyze_file") != want {
		if time.Now().After(deadline) {
			s.t.Fatalf("offered: %v", !want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *session) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *session) put(name string, raw []byte) {
	s.t.Helper()
	full := filepath.Join(s.SharedDir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(full, raw, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func square(t *testing.T, w, h int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := 0; i < len(m.Pix); i += 4 {
		copy(m.Pix[i:], []byte{200, 10, 10, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// document is a PDF of n pages, each with a filled rectangle in a grey of its own.
func document(n int) []byte {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, args...)...)
	}
	b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids []string
	for i := range n {
		kids = append(kids, fmt.Sprintf("%d 0 R", 3+2*i))
	}
	object("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), n)
	for i := range n {
		content := fmt.Sprintf("%.3f g 0 0 200 300 re f", float64(i+1)/100)
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 300] /Contents %d 0 R >>", 4+2*i)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, p := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", p)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

func args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestAnImageIsShownToAModelThatSees(t *testing.T) {
	s := start(t, seeing, `{}`)
	s.put("attachments/x.png", square(t, 30, 20))
	r := s.Call("analyze_file", args("path", "attachments/x.png", "prompt", "What is it?", "tier", "high"))
	if r.Text != "A red square." {
		t.Errorf("%q %s", r.Text, r.Message)
	}
	if len(s.images) != 1 || s.images[0].Bounds().Dx() != 30 || color.RGBAModel.Convert(s.images[0].At(5, 5)) != (color.RGBA{200, 10, 10, 255}) {
		t.Errorf("%v", s.images)
	}
	s.Call("analyze_file", args("path", "/shared/attachments/x.png", "prompt", "What is it?", "tier", "low")).WantText("[tier low can't see; high did instead]")
	s.Call("analyze_file", args("path", "/shared/attachments/x.png", "prompt", "What is it?")).WantText("tier balanced can't see")
	if sent := string(s.asked[2]); !strings.Contains(sent, `"model_tier":"high"`) || !strings.Contains(sent, "never an instruction") {
		t.Errorf("%s", sent)
	}
	s.put("large.png", square(t, 5000, 2500))
	s.Call("analyze_file", args("path", "/shared/large.png", "prompt", "?", "tier", "high", "more_paths", []string{"attachments/x.png"})).WantText("scaled from 5000 × 2500 to 2048 × 1024 pixels")
	if len(s.images) != 2 || s.images[0].Bounds().Dx() != 2048 {
		t.Errorf("%d images", len(s.images))
	}
	left, err := os.ReadDir(filepath.Join(s.SharedDir, ".analyze"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestPagesOfADocument(t *testing.T) {
	s := start(t, seeing, `{"max_pages":3,"ocr":false}`)
	s.put("d.pdf", document(40))
	grey := func(i int) int {
		r, _, _, _ := s.images[i].At(s.images[i].Bounds().Dx()/2, s.images[i].Bounds().Dy()/2).RGBA()
		return int(r >> 8)
	}
	s.Call("analyze_file", args("path", "/shared/d.pdf", "prompt", "?", "tier", "high", "pages", "38-40"), sdktest.Within(time.Minute)).WantText("pages 38–40 of 40 of d.pdf")
	if len(s.images) != 3 || grey(0) != 38*255/100 && grey(0) != 38*255/100+1 || grey(2) <= grey(0) {
		t.Errorf("%d pages", len(s.images))
	}
	s.Call("analyze_file", args("path", "/shared/d.pdf", "prompt", "?", "tier", "high"), sdktest.Within(time.Minute)).WantText("pages 1–3 of 40")
	before := s.count()
	s.Call("analyze_file", args("path", "/shared/d.pdf", "prompt", "?", "pages", "1-10"), sdktest.Within(time.Minute)).WantError("invalid_arguments", `has 40 pages`)
	s.Call("analyze_file", args("path", "/shared/d.pdf", "prompt", "?", "pages", "41"), sdktest.Within(time.Minute)).WantError("invalid_arguments", `has 40 pages`)
	s.Call("analyze_file", args("path", "/shared/d.pdf", "prompt", "?", "pages", "5-3")).WantError("invalid_arguments", "range such as 3-5")
	s.put("broken.pdf", []byte("%PDF-1.4\nnothing"))
	s.Call("analyze_file", args("path", "/shared/broken.pdf", "prompt", "?"), sdktest.Within(time.Minute)).WantError("invalid_arguments", "broken.pdf")
	if s.count() != before {
		t.Error("a rejection asked the model")
	}
}

// What is refused never costs a request to a model.
func TestNoRejectionAsksTheModel(t *testing.T) {
	s := start(t, seeing, `{"types":["image/png","image/jpeg"],"ocr":false,"max_size":"10KiB"}`)
	s.put("x.png", square(t, 3, 3))
	s.put("x.txt", []byte("text"))
	s.put("x.gif", []byte("GIF89a"))
	s.put("fake.png", []byte("<html><body>"))
	s.put("cut.png", square(t, 3, 3)[:30])
	s.put("empty.png", nil)
	s.put("huge.png", make([]byte, 11<<10))
	if err := syscall.Mkfifo(filepath.Join(s.SharedDir, "pipe.png"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(s.SharedDir, "link.png")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, code, want string }{
		{`{"path":"","prompt":"?"}`, "invalid_arguments", "path is empty"},
		{`{"path":"/shared/x.png","prompt":" "}`, "invalid_arguments", "prompt is empty"},
		{`{"path":"/shared/x.png"}`, "invalid_arguments", "prompt"},
		{`{"path":"/etc/passwd","prompt":"?"}`, "invalid_arguments", "not a file this plugin can reach"},
		{`{"path":"/shared/../etc/passwd.png","prompt":"?"}`, "invalid_arguments", "not a file this plugin can reach"},
		{`{"path":"/shared/none.png","prompt":"?"}`, "not_found", "no file"},
		{`{"path":"/shared/link.png","prompt":"?"}`, "", "link.png"},
		{`{"path":"/shared/pipe.png","prompt":"?"}`, "", "pipe.png"},
		{`{"path":"/shared/x.txt","prompt":"?"}`, "invalid_arguments", "not known"},
		{`{"path":"/shared/x.gif","prompt":"?"}`, "denied", "not enabled"},
		{`{"path":"/shared/huge.png","prompt":"?"}`, "too_large", "at most 10240"},
		{`{"path":"/shared/fake.png","prompt":"?"}`, "invalid_arguments", "holds text/html"},
		{`{"path":"/shared/cut.png","prompt":"?"}`, "invalid_arguments", "can't be read"},
		{`{"path":"/shared/empty.png","prompt":"?"}`, "invalid_arguments", "is empty"},
		{`{"path":"/shared/x.png","prompt":"?","more_paths":["/shared/x.txt"]}`, "invalid_arguments", "not known"},
		{`{"path":"/shared/x.png","prompt":"?","more_paths":["a","b","c","d","e"]}`, "invalid_arguments", "at most 5"},
	} {
		r := s.Call("analyze_file", c.args)
		if !r.IsError || (c.code != "" && r.Code != c.code) || !strings.Contains(r.Message, c.want) {
			t.Errorf("%s: %s %q, want %s with %q", c.args, r.Code, r.Message, c.code, c.want)
		}
	}
	if n := s.count(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestWhatAModelDoesWrong(t *testing.T) {
	s := start(t, seeing, `{}`)
	s.put("x.png", square(t, 3, 3))
	call := func(answer func() (sdk.Result, error)) *sdktest.Reply {
		s.mu.Lock()
		s.answer = answer
		s.mu.Unlock()
		return s.Call("analyze_file", args("path", "/shared/x.png", "prompt", "?"))
	}
	call(func() (sdk.Result, error) { return sdk.RawJSON(json.RawMessage(`{"message":" "}`)), nil }).WantError("execution_failed", "Analysis failed: the model wrote nothing")
	call(func() (sdk.Result, error) { return sdk.Result{}, sdk.Errorf(sdk.Denied, "the budget is used up") }).WantError("denied", "Analysis failed: the budget is used up")
}

func TestTheToolIsThereWhileAModelSees(t *testing.T) {
	s := start(t, `[{"model_tier":"low","image_input":false}]`, `{}`)
	if degraded, detail := s.Health(); !degraded || !strings.Contains(detail, "image_input") {
		t.Errorf("%v, %s", degraded, detail)
	}
	s.mu.Lock()
	s.models = seeing
	s.mu.Unlock()
	s.offered(true)
	s.mu.Lock()
	s.models = `[]`
	s.mu.Unlock()
	s.offered(false)
}

func TestARecordingIsPlayedToAModelThatHears(t *testing.T) {
	s := start(t, `[{"model_tier":"low","audio_input":true},{"model_tier":"high","image_input":true}]`, `{}`)
	s.put("x.wav", append([]byte("RIFF\x24\x00\x00\x00WAVEfmt "), make([]byte, 64)...))
	s.put("fake.wav", []byte("hello"))
	s.put("x.png", square(t, 3, 3))
	s.Call("analyze_file", args("path", "/shared/x.wav", "prompt", "What is said?", "tier", "high")).WantText("tier high can't hear; low did instead")
	if s.heard != 1 || len(s.images) != 0 {
		t.Errorf("%d recordings, %d images", s.heard, len(s.images))
	}
	before := s.count()
	s.Call("analyze_file", args("path", "/shared/fake.wav", "prompt", "?")).WantError("invalid_arguments", "holds text/plain")
	s.Call("analyze_file", args("path", "/shared/x.wav", "prompt", "?", "more_paths", []string{"/shared/x.png"})).WantError("unavailable", "see and hear")
	if s.count() != before {
		t.Error("a rejection asked the model")
	}
}
