package rollout

import (
	"strings"
	"testing"
	"time"
)

func TestDurationsThatAreNoneSayWhy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100000000h": "too long", "99999999999999999999s": "too long", "1h1e9s": "is not a duration",
		"soon": "is not a duration", "90": "is not a duration",
	} {
		err := new(Duration).UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestDurationsHaveDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-1s": -time.Second, "0d": 0,
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "106751d": 106751 * 24 * time.Hour,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%s is %v, want %v: %v", text, d.Std(), want, err)
		}
		again, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Duration
		if err := back.UnmarshalText(again); err != nil || back != d {
			t.Errorf("%s is written as %s and read as %v: %v", text, again, back, err)
		}
	}
	for _, text := range []string{"", "d", "30", "1.5d", "-1d", "1d-1h", "1h1d", "1d1d", "106751d24h", "999999999999d",
		"1d ", "1d+1h"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, d.Std())
		}
	}
}
