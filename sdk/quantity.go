package sdk

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"
)

// Duration is a setting written as "90s" or "1h30m".
type Duration time.Duration

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the duration as it stands in HCL.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads "90s"; negative durations are refused.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf(`a duration is written as a string such as "30s"`)
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf(`%q is not a duration such as "30s" or "1h30m"`, text)
	}
	*d = Duration(v)
	return nil
}

// Size is a setting in bytes, written as "512MiB" or "10kB".
type Size int64

// Bytes is the size in bytes.
func (s Size) Bytes() int64 { return int64(s) }

func (s Size) String() string {
	for _, unit := range []struct {
		bytes Size
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s >= unit.bytes && s%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", s/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

// MarshalJSON writes the size as it stands in HCL.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads "512MiB".
func (s *Size) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf(`a size is written as a string such as "512MiB"`)
	}
	v, err := humanize.ParseBytes(text)
	if err != nil || v > math.MaxInt64 {
		return fmt.Errorf(`%q is not a size such as "512MiB" or "10kB"`, text)
	}
	*s = Size(v)
	return nil
}
