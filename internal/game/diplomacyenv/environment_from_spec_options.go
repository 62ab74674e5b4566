package diplomacyenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/kit/settings"
)

// FromOptions makes an Env on the standard map from the options of a run spec. What they do not say stays as in
// DefaultConfig, and nil says nothing; an unknown key is an error that names the nearest known one.
func FromOptions(options json.RawMessage) (*Env, error) {
	cfg := DefaultConfig()
	if len(options) > 0 {
		if err := errors.Join(unknownKeys("", options, reflect.TypeFor[Config]())...); err != nil {
			return nil, err
		}
		if err := json.NewDecoder(bytes.NewReader(options)).Decode(&cfg); err != nil {
			return nil, optionError(err)
		}
	}
	return New(cfg, diplomacy.Standard())
}

func optionError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: want %s, not a %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return err
}

// unknownKeys lists the keys of a JSON object, at all depths, that t has no field for. Only structs have a fixed set
// of keys; types that read themselves are left to do so.
func unknownKeys(path string, raw json.RawMessage, t reflect.Type) []error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return nil // the decoder says better what is wrong
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = t.Field(i).Type
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(object)) {
		field, ok := fields[key]
		if !ok {
			errs = append(errs, fmt.Errorf("%s%s: no such key (%s)", path, key, meant(key, slices.Sorted(maps.Keys(fields)))))
			continue
		}
		errs = append(errs, unknownKeys(path+key+".", object[key], field)...)
	}
	return errs
}

// meant names the key that somebody who wrote key most likely meant, or else all of them.
func meant(key string, known []string) string {
	if near := settings.Nearest(key, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(known, ", ")
}
