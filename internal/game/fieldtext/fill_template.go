// Package fieldtext puts the fields of a JSON object into a text.
package fieldtext

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var field = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.]*)\}`)

// Fill is a template with fields in place of their names in braces: texts and numbers as they are, all else as JSON. A
// dot leads into an object. A field that is missing, or null, is an error, and so is a text that is empty then.
func Fill(template string, fields map[string]any) (string, error) {
	var missing error
	text := field.ReplaceAllStringFunc(template, func(name string) string {
		name = name[1 : len(name)-1]
		v, err := shown(lookUp(fields, name))
		if err != nil {
			missing = fmt.Errorf("field %q of the template: %w", name, err)
		}
		return v
	})
	if missing == nil && text == "" {
		missing = errors.New("the prompt is empty")
	}
	return text, missing
}

func lookUp(fields map[string]any, path string) any {
	var v any = fields
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func shown(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("is missing")
	case string:
		return v, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}
