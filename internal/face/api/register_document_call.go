package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

// answered registers a call that answers with one document.
func answered[I, O any](s *Server, id string, do func(context.Context, *I) (O, error)) {
	answeredAs(s, s.operation(id), do)
}

func answeredAs[I, O any](s *Server, op huma.Operation, do func(context.Context, *I) (O, error)) {
	doing := operations()[op.OperationID].Doing
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*struct{ Body O }, error) {
		document, err := do(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, doing, err)
		}
		return &struct{ Body O }{document}, nil
	})
}

// listed is a list as JSON writes one: of nothing it is empty, and not null.
func listed[T any](all []T) []T { return append([]T{}, all...) }
