package otel

// The names of the OpenTelemetry semantic conventions for generative AI that spans use, in one place: the conventions
// are still in development. All other names of spans and attributes are this service's own, under "millrace.".

// genAIConvention is the version of the conventions that these names are of.
const genAIConvention = "https://opentelemetry.io/schemas/1.41.0"

const (
	genAIOperation    = "gen_ai.operation.name"
	genAIProvider     = "gen_ai.provider.name"
	genAIConversation = "gen_ai.conversation.id"

	genAIRequestModel       = "gen_ai.request.model"
	genAIRequestMaxTokens   = "gen_ai.request.max_tokens"
	genAIRequestTemperature = "gen_ai.request.temperature"
	genAIRequestTopP        = "gen_ai.request.top_p"
	genAIRequestSeed        = "gen_ai.request.seed"

	genAIResponseModel         = "gen_ai.response.model"
	genAIResponseFinishReasons = "gen_ai.response.finish_reasons"
	genAIUsageInputTokens      = "gen_ai.usage.input_tokens"
	genAIUsageOutputTokens     = "gen_ai.usage.output_tokens"

	serverAddress = "server.address"
	serverPort    = "server.port"
	errorType     = "error.type"
)

// Values of the attributes above.
const (
	textCompletion = "text_completion"
	providerVLLM   = "vllm"
)
