package access

import (
	"context"
)

type holderKey struct{}

// AsHolder marks a call within the process as made by a token's holder; only the token's hash is kept.
func AsHolder(ctx context.Context, token Hash) context.Context {
	return context.WithValue(ctx, holderKey{}, token)
}

// HolderOf is the token of a call within the process; false: the call came from outside.
func HolderOf(ctx context.Context) (token Hash, inside bool) {
	token, inside = ctx.Value(holderKey{}).(Hash)
	return token, inside
}
