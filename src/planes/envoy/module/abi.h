/* The part of Envoy's interface for dynamic modules that this module uses. The names are Envoy's, with shorter types. */
#ifndef TOLLGATE_ABI_H
#define TOLLGATE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOOK __attribute__((visibility("default")))

/* What this module was written for. Envoy 1.38 and later only warn if theirs differs. */
#define ABI_VERSION "v0.1.0"

/* Bytes that belong to Envoy or to the module. Those of Envoy are valid until the hook returns. */
struct abi_buffer {
  const char *ptr;
  size_t length;
};

struct abi_header {
  const char *key_ptr;
  size_t key_length;
  const char *value_ptr;
  size_t value_length;
};

enum abi_header_map { ABI_REQUEST_HEADERS = 0, ABI_RESPONSE_HEADERS = 2 };
enum abi_body { ABI_REQUEST_BODY = 0, ABI_RESPONSE_BODY = 2 };
enum abi_log_level { ABI_LOG_INFO = 2, ABI_LOG_WARN = 3, ABI_LOG_ERROR = 4 };
enum abi_headers_status { ABI_HEADERS_CONTINUE = 0, ABI_HEADERS_STOP = 1, ABI_HEADERS_STOP_ALL_AND_WATERMARK = 4 };
enum abi_data_status { ABI_DATA_CONTINUE = 0, ABI_DATA_STOP_AND_WATERMARK = 2, ABI_DATA_STOP_NO_BUFFER = 3 };
enum abi_trailers_status { ABI_TRAILERS_CONTINUE = 0, ABI_TRAILERS_STOP = 1 };
enum abi_metadata_source { ABI_ROUTE_METADATA = 1 };
enum abi_call_started { ABI_CALL_STARTED = 0 };
enum abi_call_result { ABI_CALL_SUCCESS = 0 };
enum abi_reset_reason { ABI_LOCAL_RESET = 0 };

#define CALLBACK(name) envoy_dynamic_module_callback_##name

void CALLBACK(log)(enum abi_log_level level, struct abi_buffer message);
uint32_t CALLBACK(get_concurrency)(void);
bool CALLBACK(is_validation_mode)(void);

bool CALLBACK(http_get_header)(void *filter, enum abi_header_map map, struct abi_buffer key, struct abi_buffer *value,
                               size_t index, size_t *count);
bool CALLBACK(http_set_header)(void *filter, enum abi_header_map map, struct abi_buffer key, struct abi_buffer value);
bool CALLBACK(http_get_metadata_string)(void *filter, enum abi_metadata_source source, struct abi_buffer name_space,
                                        struct abi_buffer key, struct abi_buffer *value);
bool CALLBACK(http_filter_get_attribute_string)(void *filter, int attribute, struct abi_buffer *value);
size_t CALLBACK(http_get_body_size)(void *filter, enum abi_body body);
size_t CALLBACK(http_get_body_chunks_size)(void *filter, enum abi_body body);
bool CALLBACK(http_get_body_chunks)(void *filter, enum abi_body body, struct abi_buffer *chunks);
void CALLBACK(http_send_response_data)(void *filter, struct abi_buffer data, bool end_of_stream);
void CALLBACK(http_send_response)(void *filter, uint32_t status, struct abi_header *headers, size_t count,
                                  struct abi_buffer body, struct abi_buffer details);
void CALLBACK(http_send_response_data)(void *filter, struct abi_buffer data, bool end_of_stream);
void CALLBACK(http_filter_continue_decoding)(void *filter);
void CALLBACK(http_filter_continue_encoding)(void *filter);
void CALLBACK(http_filter_reset_stream)(void *filter, enum abi_reset_reason reason, struct abi_buffer details);
bool CALLBACK(http_set_upstream_override_host)(void *filter, struct abi_buffer host, bool strict);

void *CALLBACK(http_filter_scheduler_new)(void *filter);
void CALLBACK(http_filter_scheduler_commit)(void *scheduler, uint64_t event);
void CALLBACK(http_filter_scheduler_delete)(void *scheduler);
void *CALLBACK(http_filter_config_scheduler_new)(void *config);
void CALLBACK(http_filter_config_scheduler_commit)(void *scheduler, uint64_t event);
void CALLBACK(http_filter_config_scheduler_delete)(void *scheduler);
enum abi_call_started CALLBACK(http_filter_config_http_callout)(void *config, uint64_t *id, struct abi_buffer cluster,
                                                                struct abi_header *headers, size_t count,
                                                                struct abi_buffer body, uint64_t timeout_ms);

void CALLBACK(bootstrap_extension_config_signal_init_complete)(void *config);

static inline struct abi_buffer abi_text(const char *ptr, size_t length) {
  struct abi_buffer buffer = {ptr, length};
  return buffer;
}

#endif
