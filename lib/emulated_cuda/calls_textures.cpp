// Texture and surface objects over linear memory, pitched memory and arrays; no mipmaps, views or
// cube maps.
#include "calls.h"
#include "memory.h"

#include <algorithm>
#include <map>

namespace tally::hooks::emulated {

namespace {

using emulator::AddressMode;
using emulator::Texture;

struct Description {
  cudaResourceDesc resource{};
  cudaTextureDesc texture{};
};

/// The descriptors of the objects, for queries.
struct Descriptions {
  std::mutex mutex;
  std::map<unsigned long long, Description> of;
  static Descriptions &get() {
    static auto *only = new Descriptions;
    return *only;
  }
};

bool setFormat(Texture &texture, const cudaChannelFormatDesc &format) {
  const int bits[] = {format.x, format.y, format.z, format.w};
  texture.channels = static_cast<std::uint8_t>(
      std::count_if(std::begin(bits), std::end(bits), [](int each) { return each != 0; }));
  texture.channelBytes = static_cast<std::uint8_t>(format.x / 8);
  texture.kind = format.f == cudaChannelFormatKindSigned     ? emulator::TexelKind::Signed
                 : format.f == cudaChannelFormatKindUnsigned ? emulator::TexelKind::Unsigned
                                                             : emulator::TexelKind::Float;
  bool isPlain = format.f <= cudaChannelFormatKindFloat;
  bool isFloat = texture.kind == emulator::TexelKind::Float;
  return isPlain && texture.channels != 0 && texture.channels != 3 &&
         (texture.channelBytes == 4 || texture.channelBytes == 2 ||
          (texture.channelBytes == 1 && !isFloat));
}

/// Sets the texture's memory from the resource; returns false for a resource that is not served.
bool setResource(Texture &texture, const cudaResourceDesc &resource) {
  switch (resource.resType) {
  case cudaResourceTypeLinear: {
    const auto &linear = resource.res.linear;
    if (!setFormat(texture, linear.desc))
      return false;
    texture.memory = reinterpret_cast<std::uintptr_t>(linear.devPtr);
    texture.width = static_cast<std::uint32_t>(linear.sizeInBytes / texture.elementBytes());
    texture.isLinearMemory = true;
    return texture.width != 0;
  }
  case cudaResourceTypePitch2D: {
    const auto &pitched = resource.res.pitch2D;
    texture.memory = reinterpret_cast<std::uintptr_t>(pitched.devPtr);
    texture.width = static_cast<std::uint32_t>(pitched.width);
    texture.height = static_cast<std::uint32_t>(pitched.height);
    texture.pitch = pitched.pitchInBytes;
    return setFormat(texture, pitched.desc);
  }
  case cudaResourceTypeArray: {
    const auto &array = *reinterpret_cast<const Array *>(resource.res.array.array);
    texture.memory = array.memory;
    texture.width = static_cast<std::uint32_t>(array.extent.width);
    texture.height = static_cast<std::uint32_t>(array.rows());
    texture.depth = static_cast<std::uint32_t>(array.slices());
    texture.pitch = array.pitch();
    texture.slice = array.pitch() * array.rows();
    texture.isLayered = array.flags & cudaArrayLayered;
    return !(array.flags & cudaArrayCubemap) && setFormat(texture, array.format);
  }
  default:
    return false;
  }
}

AddressMode modeOf(cudaTextureAddressMode mode) {
  switch (mode) {
  case cudaAddressModeWrap:
    return AddressMode::Wrap;
  case cudaAddressModeMirror:
    return AddressMode::Mirror;
  case cudaAddressModeBorder:
    return AddressMode::Border;
  case cudaAddressModeClamp:
    break;
  }
  return AddressMode::Clamp;
}

void setReading(Texture &texture, const cudaTextureDesc &reading) {
  for (std::size_t i = 0; i < 3; ++i)
    texture.addressModes[i] = modeOf(reading.addressMode[i]);
  std::copy(std::begin(reading.borderColor), std::end(reading.borderColor), texture.border.begin());
  texture.filtersLinearly = reading.filterMode == cudaFilterModeLinear;
  texture.readsNormalized =
      reading.readMode == cudaReadModeNormalizedFloat && texture.kind != emulator::TexelKind::Float;
  texture.hasNormalizedCoordinates = reading.normalizedCoords != 0;
}

cudaError_t created(unsigned long long *result, const cudaResourceDesc *resource,
                    const cudaTextureDesc *reading, const char *call) {
  return served([&](runtime::EmulatorDevice &device) {
    if (!result || !resource)
      return cudaErrorInvalidValue;
    Texture texture;
    if (!setResource(texture, *resource) || (reading && reading->sRGB))
      return notServed(call);
    Description description;
    description.resource = *resource;
    if (reading) {
      setReading(texture, *reading);
      description.texture = *reading;
    }
    *result = device.machine().createTexture(texture);
    Descriptions &all = Descriptions::get();
    std::scoped_lock lock(all.mutex);
    all.of[*result] = description;
    return cudaSuccess;
  });
}

cudaError_t destroyed(unsigned long long object) {
  return served([&](runtime::EmulatorDevice &device) {
    Descriptions &all = Descriptions::get();
    std::scoped_lock lock(all.mutex);
    all.of.erase(object);
    return device.machine().destroyTexture(object) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

template <class Part>
cudaError_t described(Part *result, unsigned long long object, Part Description::*part) {
  return served([&](runtime::EmulatorDevice &) {
    Descriptions &all = Descriptions::get();
    std::scoped_lock lock(all.mutex);
    auto found = all.of.find(object);
    if (!result || found == all.of.end())
      return cudaErrorInvalidValue;
    *result = found->second.*part;
    return cudaSuccess;
  });
}

} // namespace

cudaError_t Calls::cudaCreateTextureObject(cudaTextureObject_t *result,
                                           const cudaResourceDesc *resource,
                                           const cudaTextureDesc *reading,
                                           const cudaResourceViewDesc *view) {
  if (view)
    return notServed("cudaCreateTextureObject with a view");
  return created(result, resource, reading, "cudaCreateTextureObject of this kind");
}

cudaError_t Calls::cudaDestroyTextureObject(cudaTextureObject_t object) {
  return destroyed(object);
}

cudaError_t Calls::cudaGetTextureObjectResourceDesc(cudaResourceDesc *result,
                                                    cudaTextureObject_t object) {
  return described(result, object, &Description::resource);
}

cudaError_t Calls::cudaGetTextureObjectTextureDesc(cudaTextureDesc *result,
                                                   cudaTextureObject_t object) {
  return described(result, object, &Description::texture);
}

cudaError_t Calls::cudaCreateSurfaceObject(cudaSurfaceObject_t *result,
                                           const cudaResourceDesc *resource) {
  return created(result, resource, nullptr, "cudaCreateSurfaceObject of this kind");
}

cudaError_t Calls::cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return destroyed(object);
}

cudaError_t Calls::cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *result,
                                                    cudaSurfaceObject_t object) {
  return described(result, object, &Description::resource);
}

cudaError_t Calls::cudaDeviceGetTexture1DLinearMaxWidth(size_t *elements,
                                                        const cudaChannelFormatDesc *, int) {
  *elements = std::size_t{1} << 28;
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
