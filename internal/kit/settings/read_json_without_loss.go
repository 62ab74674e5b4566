package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Plain is a value as JSON has it: one that was built by a program holds Go's types. Nil: JSON does not have it.
func Plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	tree, err := Decode(text)
	if err != nil {
		return nil
	}
	return tree
}

// Decode reads JSON without a loss of digits.
func Decode(text []byte) (tree any, err error) {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}

// readJSON is a JSON document as plain values. A key that stands twice in one object is a Fault, as it is in a file.
func readJSON(text []byte) (any, error) {
	tree, err := Decode(text)
	if err != nil {
		return nil, errors.New("this is no JSON")
	}
	return tree, unique(json.NewDecoder(bytes.NewReader(text)), "")
}

// unique refuses a key that stands twice in an object of the next value, which is valid JSON.
func unique(d *json.Decoder, path string) error {
	token, err := d.Token()
	begin, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	seen := map[string]bool{}
	for i := 0; d.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if begin == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			at = Join(path, fmt.Sprint(name))
		}
		if seen[at] {
			return &Fault{Path: at, Text: "given twice; keep one"}
		}
		seen[at] = true
		if err := unique(d, at); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
