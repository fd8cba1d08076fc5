package settings

import (
	"regexp"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Defaults of attachments.
const (
	DefaultThreshold = 256 << 10
	maxThreshold     = 32 << 20
	defaultEndpoint  = "/attachments"
	defaultField     = "file"
	defaultContent   = "content"
)

// AttachmentThreshold is the size in bytes from which a file is uploaded.
func (s *Server) AttachmentThreshold() int64 {
	if s.Attachments == nil || s.Attachments.Threshold == 0 {
		return DefaultThreshold
	}
	return s.Attachments.Threshold.Bytes()
}

// UploadField is the form field of an upload.
func (s *Server) UploadField() string {
	if s.UploadFieldName == "" {
		return defaultField
	}
	return s.UploadFieldName
}

// Endpoint is the path of the server's attachments, with a slash at its front.
func (s *Server) Endpoint() string {
	if s.EndpointPath == "" {
		return defaultEndpoint
	}
	return "/" + strings.Trim(s.EndpointPath, "/")
}

// Captures reports whether media of results becomes files.
func (s *Server) Captures() bool {
	return s.Attachments == nil || s.Attachments.Capture == nil || s.Attachments.Capture.Enabled == nil || *s.Attachments.Capture.Enabled
}

// endpointPath is a path as it stands in an address, a slash at its front or not.
var endpointPath = regexp.MustCompile(`^/?[A-Za-z0-9._~!$&'()*+,;=@-]+(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*/?$`)

// CaptureRule is the first rule for a tool; nil = none.
func (s *Server) CaptureRule(tool string) *Rule {
	if !s.Captures() || s.Attachments == nil || s.Attachments.Capture == nil {
		return nil
	}
	for _, r := range s.Attachments.Capture.Rules {
		for _, t := range r.Tools {
			if strings.EqualFold(t, tool) {
				if r.ContentField == "" {
					r.ContentField = defaultContent
				}
				return &r
			}
		}
	}
	return nil
}

// OutboundPaths are the places of attachments in arguments.
func (s *Server) OutboundPaths() []splice.Path {
	if s.Attachments == nil || s.Attachments.Outbound == nil {
		return nil
	}
	var out []splice.Path
	for _, p := range s.Attachments.Outbound.ParamPaths {
		if path, err := splice.ParsePath(p); err == nil { // checked before
			out = append(out, path)
		}
	}
	return out
}

// Saves reports whether a tool takes mode "save".
func (s *Server) Saves(tool string) bool {
	if s.Attachments == nil || s.Attachments.Inbound == nil {
		return false
	}
	for _, t := range s.Attachments.Inbound.Tools {
		if strings.EqualFold(t, tool) {
			return true
		}
	}
	return false
}

func (s *Server) checkAttachments(d *sdk.Diagnostics, at sdk.Path) {
	if p := s.EndpointPath; p != "" && !endpointPath.MatchString(p) || strings.Contains("/"+p+"/", "/../") || strings.Contains("/"+p+"/", "/./") {
		d.Errorf(at.Attr("endpoint_path"), `a path on the server's host is wanted here, such as "/attachments"`)
	}
	if strings.ContainsAny(s.UploadFieldName, "\r\n\x00\"") {
		d.Errorf(at.Attr("upload_field_name"), "the name of a form field is wanted here")
	}
	a := s.Attachments
	if a == nil {
		return
	}
	at = at.Block("attachments", 0)
	if n := a.Threshold.Bytes(); n < 0 || n > maxThreshold {
		d.Errorf(at.Attr("threshold"), "a size up to 32MiB is wanted here; larger files are uploaded")
	}
	if a.Outbound != nil {
		for i, p := range a.Outbound.ParamPaths {
			if _, err := splice.ParsePath(p); err != nil {
				d.Errorf(at.Block("outbound", 0).Attr("param_paths").Index(i), "%v", err)
			}
		}
	}
	if a.Capture != nil {
		for i, r := range a.Capture.Rules {
			if len(r.Tools) == 0 {
				d.Warnf(at.Block("capture", 0).Block("rule", i), "a rule without tools is for none")
			}
		}
	}
}
