package settings

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ReadJSON is a JSON document as a tree. A key that stands twice in one object is a Fault, as it is in a file.
func ReadJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return jsonTree(d)
}

func jsonTree(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch token {
	case json.Delim('['):
		return jsonList(d)
	case json.Delim('{'):
		return jsonObject(d)
	}
	return token, err
}

func jsonList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		item, err := jsonTree(d)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := d.Token()
	return list, err
}

func jsonObject(d *json.Decoder) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, again := object[name]; again {
			return nil, &Fault{Path: name, Text: "given twice; keep one"}
		}
		if object[name], err = jsonTree(d); err != nil {
			var below *Fault
			if errors.As(err, &below) {
				below.Path = Join(name, below.Path)
			}
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}
