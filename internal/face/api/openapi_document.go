package api

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

const description = `Millrace plays games against vLLM engines and feeds a trainer, exactly once per step.

A trainer announces itself (POST /v1/runs/{run}/trainer), then repeats: claim step k, train, publish a policy
version, record step k. A claim is a long poll and may be repeated at will: a step always has the same batch.

A batch holds groups, a group holds trajectories, a trajectory holds turns. **Each turn is its own sequence**: its
prompt is prompt_token_ids, its completion token_ids, and logprobs and loss_mask have the length of token_ids.
logprobs are natural logarithms, of the distribution that was sampled from. Every turn carries the policy_version that
sampled it. reward and advantage belong to the trajectory; the advantage is normalised over the group's trajectories of
the same agent. Token ids come from the engine and must not be made again from text.

Every error is a problem document (RFC 9457): compare its type, show its detail. Send "Authorization: Bearer TOKEN"
where the server asks for it. Times are RFC 3339 in UTC; durations are seconds, in fields ending in _seconds.`

// security is the name of the scheme in the OpenAPI document.
const security = "token"

func (s *Server) humaConfig() huma.Config {
	cfg := huma.DefaultConfig("Millrace", s.cfg.Version)
	if s.cfg.Version == "" {
		cfg.Info.Version = "dev"
	}
	cfg.Info.Description = description
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

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)
