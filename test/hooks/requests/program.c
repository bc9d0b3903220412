/* A program in C99 without Tally and without CUDA: its calls of the request interface do nothing.
 * */
#include "tally/request.h"

#include <stdio.h>

int requestOfLibrary(struct CUstream_st *stream);

/* As docs/guide/requests.md shows it. */
static tally_request shown(struct CUstream_st *stream, struct CUstream_st *other_stream) {
  tally_request_options options = {sizeof options, "decode", 20 * 1000 * 1000};
  tally_request request;
  tally_request_begin(stream, &options, &request);
  tally_request_add_stream(request, other_stream); /* where it uses several */
  tally_request_end(request);
  return request;
}

int main(void) {
  tally_request_options options = {sizeof options, "name", 1000};
  tally_request request = 7;
  if (tally_request_begin(NULL, &options, &request) != 0 || request != 0 ||
      tally_request_add_stream(request, NULL) != 0 || tally_request_add_stream(5, NULL) != 0 ||
      tally_request_end(request) != 0 || tally_request_end(5) != 0 ||
      tally_request_begin(NULL, NULL, NULL) != 0 || requestOfLibrary(NULL) != 2000 ||
      shown(NULL, NULL) != 0)
    return 1;
  puts("nothing was done");
  return 0;
}
