package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// readJSONRecords reads a list of times or objects, alone or under a key of an object, or objects one after another.
func readJSONRecords(name string, data []byte, need Need) ([]record, error) {
	j := &jsonRecords{name: name, data: data, need: need, from: json.NewDecoder(bytes.NewReader(data))}
	j.from.UseNumber()
	for {
		var raw json.RawMessage
		err := j.from.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return j.records, nil
		}
		if err != nil {
			return nil, j.invalid(err)
		}
		if err := j.value(raw, int(j.from.InputOffset())-len(raw), true); err != nil {
			return nil, err
		}
	}
}

type jsonRecords struct {
	name    string
	data    []byte
	need    Need
	from    *json.Decoder
	records []record

	counted, line int // newlines up to this place; the line of it
}

// lineAt is the line of a place. Places come in order.
func (j *jsonRecords) lineAt(offset int) int {
	offset = min(max(offset, j.counted), len(j.data))
	j.line += bytes.Count(j.data[j.counted:offset], []byte("\n"))
	j.counted = offset
	return j.line + 1
}

func (j *jsonRecords) invalid(err error) error {
	offset := int(j.from.InputOffset())
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = int(syntax.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset = len(j.data)
	}
	return fmt.Errorf("%s:%d: this is no JSON: %w", j.name, j.lineAt(offset), err)
}

// value reads one JSON value that begins at a place of the file. An object at the top may hold the list.
func (j *jsonRecords) value(raw json.RawMessage, offset int, top bool) error {
	switch raw[0] {
	case '[':
		if !top {
			return fmt.Errorf("%s:%d: a list within a list: want a number or an object for each arrival", j.name,
				j.lineAt(offset))
		}
		return j.list(raw, offset)
	case '{':
		if key, list, at := listIn(raw); top && key != "" {
			return j.list(list, offset+at)
		}
		return j.object(raw, offset)
	}
	line := j.lineAt(offset)
	at, date, err := timeOf(unquote(raw), time.Second)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", j.name, line, err)
	}
	if j.need == Lengths {
		return fmt.Errorf("%s:%d: an arrival without lengths: want an object with %s, %s and %s", j.name, line,
			secondNames[0], promptNames[0], outputNames[0])
	}
	j.records = append(j.records, record{line: line, at: at, date: date, count: 1})
	return nil
}

// list reads the items of a list, which begins at a place of the file.
func (j *jsonRecords) list(raw json.RawMessage, offset int) error {
	items := json.NewDecoder(bytes.NewReader(raw))
	if _, err := items.Token(); err != nil {
		return j.invalid(err)
	}
	for items.More() {
		var item json.RawMessage
		if err := items.Decode(&item); err != nil {
			return j.invalid(err)
		}
		if err := j.value(item, offset+int(items.InputOffset())-len(item), false); err != nil {
			return err
		}
	}
	return nil
}

// listIn is the one list of objects or numbers below an object that is no arrival itself, and where it begins.
func listIn(raw json.RawMessage) (key string, list json.RawMessage, at int) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return "", nil, 0
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if called(name, secondNames) && object[name][0] != '[' || called(name, milliNames) && object[name][0] != '[' {
			return "", nil, 0
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if value := object[name]; value[0] == '[' && key == "" {
			key, list, at = name, value, bytes.Index(raw, value)
		}
	}
	return key, list, at
}

// object reads an arrival that is an object.
func (j *jsonRecords) object(raw json.RawMessage, offset int) error {
	line := j.lineAt(offset)
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("%s:%d: this is no JSON: %w", j.name, line, err)
	}
	names := slices.Sorted(maps.Keys(object))
	header, row := make([]string, 0, len(names)), make([]string, 0, len(names))
	for _, name := range names {
		header, row = append(header, name), append(row, textOf(object[name]))
	}
	if len(header) == 0 {
		return fmt.Errorf("%s:%d: an arrival without an arrival time: give it %s", j.name, line, secondNames[0])
	}
	cols, headless, err := columnsOf(header, j.need)
	if headless {
		err = fmt.Errorf("no key for the arrival time: name it %s", secondNames[0])
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %s", j.name, line, strings.Replace(err.Error(), "column", "key", 1))
	}
	call, err := callOf(row, cols)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", j.name, line, err)
	}
	call.line = line
	j.records = append(j.records, call)
	return nil
}

// textOf is a value as a field of CSV would have it; a list is how many there are.
func textOf(raw json.RawMessage) string {
	var list []json.RawMessage
	if raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
		return fmt.Sprint(len(list))
	}
	return unquote(raw)
}

func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return text
	}
	return string(raw)
}
