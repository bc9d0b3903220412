/* A shared library in C99 that is not linked with Tally. A program that is linked with Tally may
 * load it. */
#include "tally/request.h"

int requestOfLibrary(struct CUstream_st *stream);
int requestOfLibrary(struct CUstream_st *stream) {
  tally_request_options options = {sizeof options, "library", 0};
  tally_request request = 1;
  int status = tally_request_begin(stream, &options, &request);
  if (status == 0)
    status = tally_request_add_stream(request, stream);
  if (status == 0)
    status = tally_request_end(request);
  return status != 0 ? status : request != 0 ? 1000 : 2000;
}
