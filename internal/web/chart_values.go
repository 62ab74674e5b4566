package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/web/pageview"
)

// chart answers the values of one chart of a page as JSON; of says whether there is one of the name in the path.
func (s *Site) chart(of func(context.Context, *visit) (values pageview.Table, known bool, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, ok := s.visit(w, r)
		if !ok {
			return
		}
		table, known, err := of(r.Context(), v)
		if err == nil && !known {
			err = problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("there is no chart %q with values",
				strings.ToValidUTF8(r.PathValue("chart"), "?"))}
		}
		var body []byte
		if err == nil {
			body, err = json.Marshal(table)
		}
		if err != nil {
			s.sorry(w, v, err)
			return
		}
		write(w, r, http.StatusOK, newMade("application/json", body))
	}
}
