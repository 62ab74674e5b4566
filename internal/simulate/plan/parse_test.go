package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestParseValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want []int
		err  string
	}{
		{"4", []int{4}, ""},
		{"2,4,8", []int{2, 4, 8}, ""},
		{"1..4", []int{1, 2, 3, 4}, ""},
		{" 8, 1..2 ,2", []int{1, 2, 8}, ""},
		{"", nil, "nothing beside a comma"},
		{"1,,2", nil, "nothing beside a comma"},
		{"0..4", nil, "0 is too small"},
		{"4..1", nil, "write 1..4"},
		{"1...4", nil, "is no number"},
		{"1-4", nil, `"1-4" is no number; want whole numbers such as 4, 2,4,8 or 1..16`},
		{"many", nil, "is no number"},
		{"1..99999999", nil, "1000 are the most"},
	} {
		got, err := ParseValues(tt.text)
		if tt.err == "" && (err != nil || !slices.Equal(got, tt.want)) {
			t.Errorf("%q: %v, %v; want %v", tt.text, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.err)
		}
	}
}

func TestParseConditions(t *testing.T) {
	t.Parallel()
	if l, err := ParseLoss("2@30"); err != nil || l != (Loss{2, 30}) {
		t.Error(l, err)
	}
	if l, err := ParseLoss("1"); err != nil || l != (Loss{1, defaultLossStep}) {
		t.Error(l, err)
	}
	if s, err := ParseSlow("1=0.5"); err != nil || s != (SlowEngine{1, 0.5}) {
		t.Error(s, err)
	}
	for _, text := range []string{"", "x", "0", "-1", "1@", "1@x", "1@0", "1@-3"} {
		if _, err := ParseLoss(text); err == nil {
			t.Errorf("--lose %q is taken", text)
		}
	}
	for _, text := range []string{"", "1", "x=1", "1=x", "0=0.5", "1=0", "1=-1", "1=NaN", "1=Inf"} {
		if _, err := ParseSlow(text); err == nil {
			t.Errorf("--slow %q is taken", text)
		}
	}
}

func TestArticle(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{2: "a second", 8: "an eighth", 11: "an eleventh", 13: "a 13th", 18: "an 18th",
		21: "a 21st", 32: "a 32nd", 80: "an 80th", 103: "a 103rd", 111: "a 111th"} {
		if got := article(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "$0", 0.00321: "$0.00321", 0.05: "$0.0500", 0.053053: "$0.0531",
		0.315: "$0.315", 1.89: "$1.89",
		12.5: "$12.50", 4321.6: "$4322"} {
		if got := Dollars(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
