package api

import (
	"path"

	_ "embed"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// description stands at the head of the OpenAPI document.
//
//go:embed openapi_description.txt
var description string

// security is the name of the scheme in the OpenAPI document.
const security = "token"

func (s *Server) humaConfig() huma.Config {
	cfg := huma.DefaultConfig("Millrace", s.cfg.Version)
	if s.cfg.Version == "" {
		cfg.Info.Version = "dev"
	}
	cfg.Info.Description = strings.TrimSpace(description)
	cfg.DocsPath = ""     // Its page loads scripts from other hosts.
	cfg.SchemasPath = ""  // Everything is in the one document.
	cfg.CreateHooks = nil // It would add $schema links to every body.
	cfg.Transformers = []huma.Transformer{complete}
	cfg.RejectUnknownQueryParameters = true
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{security: {Type: "http", Scheme: "bearer"}}
	if s.auth.required() {
		cfg.Security = []map[string][]string{{security: {}}}
	}
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas := cfg.Components.Schemas
	schemas.RegisterTypeAlias(reflect.TypeFor[runspec.Environment](), reflect.TypeFor[environmentSchema]())
	return cfg
}

// environmentSchema documents rollout.Environment, whose JSON is not its Go shape.
type environmentSchema struct {
	Kind string   `json:"kind" doc:"Which environment is played"`
	_    struct{} `additionalProperties:"true"`
}

func (s *Server) problemResponse() *huma.Response {
	return &huma.Response{
		Description: "A problem; its type is urn:millrace:problem:CODE",
		Content: map[string]*huma.MediaType{"application/problem+json": {
			Schema: s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem"),
		}},
	}
}

// schemaOf is the reference to a type's schema in the document.
func schemaOf[T any](s *Server) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
}

// specSchema describes a spec as users write it: most of its keys have defaults.
func specSchema() *huma.Schema {
	schema := &huma.Schema{Type: huma.TypeObject, Description: "A run spec", Extensions: map[string]any{}}
	if err := json.Unmarshal(spec.Schema(), &schema.Extensions); err != nil {
		panic(err) // It is made of the program's own rows.
	}
	for _, key := range []string{"$schema", "type", "description"} { // The document's own.
		delete(schema.Extensions, key)
	}
	return schema
}

// schemaName names the schemas of packages whose types are named like others'.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	for _, of := range []struct{ pkg, prefix string }{
		{"scaling", "Scaling"}, {"supply", "Supply"}, {"provider", "Provider"},
	} {
		if path.Base(t.PkgPath()) == of.pkg && t.Name() != "" {
			return of.prefix + name
		}
	}
	return name
}
