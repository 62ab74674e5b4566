package settings_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/settingstest"
)

// inner is a part of a document whose keys stand beside the others.
type inner struct {
	Name string `json:"name"`
}

type optional struct {
	Size  int     `json:"size"`
	Share float64 `json:"share"`
}

type document struct {
	inner
	Maybe *optional `json:"maybe"`
}

var documents = settings.Table{Keys: []settings.Key{
	{Path: "name", Doc: "d"}, {Path: "maybe", Doc: "d"}, {Path: "maybe.size", Default: 7, Min: new(1.0), Doc: "d"},
	{Path: "maybe.share", Max: new(1.0), Doc: "d"},
}}

// TestSectionsThatMayBeLeftOut: a section behind a pointer is absent, or has the defaults of its keys; keys of an
// embedded struct stand beside the others, as JSON has them.
func TestSectionsThatMayBeLeftOut(t *testing.T) {
	t.Parallel()
	settingstest.Hold(t, documents, reflect.TypeFor[document]())
	for text, want := range map[string]struct {
		value  string
		faults string
	}{
		`{"name": "a"}`:               {`{"name":"a","maybe":null}`, ""},
		`{"maybe": {}}`:               {`{"name":"","maybe":{"size":7,"share":0}}`, ""},
		`{"maybe": {"share": 0.5}}`:   {`{"name":"","maybe":{"size":7,"share":0.5}}`, ""},
		`{"maybe": {"size": 0}}`:      {`{"name":"","maybe":{"size":0,"share":0}}`, "maybe.size: 0 is less than 1"},
		`{"maybe": {"sice": 3}}`:      {`{"name":"","maybe":{"size":7,"share":0}}`, "maybe.sice: unknown key; did you mean maybe.size?"},
		`{"maybe": 3}`:                {`{"name":"","maybe":{"size":7,"share":0}}`, "maybe: want keys with values, not the number 3"},
		`{"maybe": {"share": "all"}}`: {`{"name":"","maybe":{"size":7,"share":0}}`, `maybe.share: want a number, not the text "all"`},
	} {
		tree, err := settings.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var d document
		faults := documents.Read(tree, &d)
		faults = append(faults, documents.Check(&d, settings.Reading{Faults: faults})...)
		got, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want.value || faults.Error() != want.faults {
			t.Errorf("%s\ngot  %s %q\nwant %s %q", text, got, faults.Error(), want.value, want.faults)
		}
	}
}
