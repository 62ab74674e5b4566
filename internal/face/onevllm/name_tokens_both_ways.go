package onevllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// nameTokens gives the logprobs of /inference/v1/generate both names of a token: token_id, which vLLM sends since 0.32,
// and token: "token_id:N", which it sent before and its clients still read.
func nameTokens(answer []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber() // every number stays as it was written
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	choices, _ := document["choices"].([]any)
	for _, choice := range choices {
		fields, _ := choice.(map[string]any)
		logprobs, _ := fields["logprobs"].(map[string]any)
		nameEach(logprobs["content"])
	}
	return json.Marshal(document)
}

func nameEach(list any) {
	entries, _ := list.([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if fields == nil {
			continue
		}
		nameEach(fields["top_logprobs"])
		text, _ := fields["token"].(string)
		number, told := strings.CutPrefix(text, "token_id:")
		switch id := fields["token_id"]; {
		case id != nil && text == "":
			fields["token"] = fmt.Sprintf("token_id:%v", id)
		case id == nil && told:
			if _, err := strconv.Atoi(number); err == nil {
				fields["token_id"] = json.Number(number)
			}
		}
	}
}
