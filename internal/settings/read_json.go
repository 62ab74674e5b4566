package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ReadJSON is a JSON document as a tree. A key that stands twice in one object is a Fault, as it is in a file.
func ReadJSON(text []byte) (any, error) {
	return (&jsonReader{d: newDecoder(text)}).tree("")
}

// ReadJSONFile is a JSON document that is a whole file, as a tree, and the line of each of its keys by the key's path;
// the document itself has the path "". An error names its line.
func ReadJSONFile(text []byte) (tree any, lines map[string]int, err error) {
	r := &jsonReader{d: newDecoder(text), text: text, lines: map[string]int{"": 1}}
	tree, err = r.tree("")
	if err == nil {
		if _, more := r.d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something stands behind the end of the document")
		}
	}
	if err != nil {
		return nil, nil, r.located(err)
	}
	return tree, r.lines, nil
}

func newDecoder(text []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d
}

// jsonReader reads a document token by token.
type jsonReader struct {
	d     *json.Decoder
	text  []byte
	lines map[string]int // nil: nobody asks
}

// line is how far the reader is.
func (r *jsonReader) line() int { return r.lineAt(r.d.InputOffset()) }

func (r *jsonReader) lineAt(offset int64) int {
	return 1 + bytes.Count(r.text[:max(0, min(offset, int64(len(r.text))))], []byte{'\n'})
}

// located is an error with the line at which the document cannot be read.
func (r *jsonReader) located(err error) error {
	line, text := r.line(), err.Error()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line = r.lineAt(syntax.Offset - 1)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		line, text = r.lineAt(int64(len(r.text))), "it ends in the middle"
		if len(bytes.TrimSpace(r.text)) == 0 {
			text = "the file is empty"
		}
	}
	return fmt.Errorf("line %d: %s", line, text)
}

func (r *jsonReader) tree(path string) (any, error) {
	token, err := r.d.Token()
	switch token {
	case json.Delim('['):
		return r.list(path)
	case json.Delim('{'):
		return r.object(path)
	}
	return token, err
}

func (r *jsonReader) list(path string) (any, error) {
	list := []any{}
	for r.d.More() {
		at := ""
		if r.lines != nil {
			at = fmt.Sprintf("%s[%d]", path, len(list))
			r.lines[at] = r.line()
		}
		item, err := r.tree(at)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := r.d.Token()
	return list, err
}

func (r *jsonReader) object(path string) (any, error) {
	object := map[string]any{}
	for r.d.More() {
		token, err := r.d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, again := object[name]; again {
			return nil, &Fault{Path: name, Text: "given twice; keep one"}
		}
		at := ""
		if r.lines != nil {
			at = Join(path, name)
			r.lines[at] = r.line()
		}
		if object[name], err = r.tree(at); err != nil {
			var below *Fault
			if errors.As(err, &below) {
				below.Path = Join(name, below.Path)
			}
			return nil, err
		}
	}
	_, err := r.d.Token()
	return object, err
}
