package apiclient

import (
	"context"
	"iter"
	"maps"
	"net/url"
)

// Pages reads a list that comes in pages. next is where the page after one begins, which goes into the query under
// param; empty, or where the page began itself: there is none.
func Pages[T any](ctx context.Context, c *Client, path string, query url.Values, param string,
	next func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		for {
			at := path
			if len(query) > 0 {
				at += "?" + query.Encode()
			}
			page, _, err := Get[T](ctx, c, at)
			if !yield(page, err) || err != nil {
				return
			}
			following := next(page)
			if following == "" || following == query.Get(param) {
				return
			}
			query.Set(param, following)
			query.Del("since") // it says where the first page begins
		}
	}
}
