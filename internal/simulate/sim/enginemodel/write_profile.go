package enginemodel

import (
	"bytes"
	"encoding/json"
)

// Text is the profile as a file, which ReadProfile reads back: a figure to a line. A figure without a source was never
// given and is left out, and so is a section of which nothing was given.
func (p *Profile) Text() []byte {
	var b bytes.Buffer
	b.WriteString("{\n  \"name\": " + quoted(p.Name) + ",\n  \"about\": " + quoted(p.About))
	names := map[string]string{"gpu": p.GPU.Name, "model": p.Model.Name}
	section := ""
	for i := range rows {
		r := &rows[i]
		f := r.of(p)
		if f.Source == "" {
			continue
		}
		if r.Section != section {
			if section != "" {
				b.WriteString("\n  }")
			}
			section = r.Section
			b.WriteString(",\n  " + quoted(section) + ": {")
			if name := names[section]; name != "" {
				b.WriteString("\n    \"name\": " + quoted(name) + ",")
			}
		} else {
			b.WriteString(",")
		}
		b.WriteString("\n    " + quoted(r.Key) + ": {\"value\": " + quoted(f.Value) + ", \"kind\": " + quoted(f.Kind) +
			", \"source\": " + quoted(f.Source) + "}")
	}
	if section != "" {
		b.WriteString("\n  }")
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// quoted is a text or a number as JSON.
func quoted(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // Texts, and numbers that were read from JSON or fitted, which are finite.
	}
	return string(bytes.TrimSpace(b.Bytes()))
}
